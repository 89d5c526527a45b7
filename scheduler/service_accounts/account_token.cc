#include "scheduler/service_accounts/account_token.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/service_accounts/base64url.h"
#include "scheduler/service_accounts/bounded_json.h"

namespace warpline::scheduler {
namespace {

using nlohmann::json;

constexpr JsonBounds kHeaderBounds = {.bytes = 1024, .depth = 1, .values = 8};
constexpr JsonBounds kClaimsBounds = {.bytes = kMaxAccountToken, .depth = 4, .values = 64};
constexpr size_t kMaxNamespace = 63;
constexpr size_t kMaxName = 253;
// The last second of the year 9999, as in RFC 3339.
constexpr int64_t kLastSecond = 253402300799;

absl::Status Refused(absl::string_view reason) { return absl::UnauthenticatedError(reason); }

// What the header of a token says.
struct Header {
  std::string algorithm;
  std::string key;
};

absl::StatusOr<Header> OpenHeader(absl::string_view encoded) {
  const auto text = DecodeBase64Url(encoded);
  if (!text.has_value()) return Refused("its header is not in base64url");
  const auto parsed = ParseJsonObject(*text, kHeaderBounds);
  if (!parsed.ok()) return Refused(absl::StrCat("its header: ", parsed.status().message()));
  // An API server writes no others. Some of those that there could be bring a key or say where one
  // is, or what else a reader must understand.
  for (const auto& [name, value] : parsed->items()) {
    if (name != "alg" && name != "kid" && name != "typ") {
      return Refused("its header says more than alg, kid and typ");
    }
  }
  const std::string* const algorithm = TextIn(*parsed, "alg");
  const std::string* const key = TextIn(*parsed, "kid");
  const std::string* const type = TextIn(*parsed, "typ");
  if (algorithm == nullptr) return Refused("its header has no alg");
  if (key == nullptr || key->empty() || key->size() > kMaxKeyId) {
    return Refused("its header has no kid");
  }
  if (parsed->contains("typ") && (type == nullptr || !absl::EqualsIgnoreCase(*type, "JWT"))) {
    return Refused("its header's typ is not JWT");
  }
  return Header{*algorithm, *key};
}

// A number of seconds since 1970. Nothing where it is missing, or something else.
std::optional<absl::Time> TimeIn(const json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{kLastSecond}) {
    return std::nullopt;
  }
  const auto seconds = found->get<int64_t>();
  if (seconds < 0 || seconds > kLastSecond) return std::nullopt;
  return absl::FromUnixSeconds(seconds);
}

absl::Status CheckTimes(const json& claims, const AccountTokenRules& rules, absl::Time now) {
  const auto expires = TimeIn(claims, "exp"), made = TimeIn(claims, "iat");
  const auto begins = TimeIn(claims, "nbf");
  if (!expires.has_value()) return Refused("it has no time exp");
  if (!made.has_value()) return Refused("it has no time iat");
  if (claims.contains("nbf") && !begins.has_value()) return Refused("its nbf is no time");
  if (now >= *expires + rules.leeway) {
    return Refused(absl::StrCat("it has run out ", absl::FormatDuration(now - *expires), " ago"));
  }
  if (now < *made - rules.leeway || (begins.has_value() && now < *begins - rules.leeway)) {
    return Refused("it is from the future: are the clocks of API server and scheduler apart?");
  }
  if (*expires <= *made || *expires - *made > rules.longest_life) {
    return Refused(absl::StrCat("it is not good for a time of up to ",
                                absl::FormatDuration(rules.longest_life)));
  }
  return absl::OkStatus();
}

// Whoever else a token is for can show it here.
bool IsFor(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  const json* one = &*found;
  if (one->is_array()) {
    if (one->size() != 1) return false;
    one = &one->front();
  }
  const auto* const text = one->get_ptr<const std::string*>();
  return text != nullptr && *text == audience;
}

// A name of an object (RFC 1123's subdomain).
bool IsObjectName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxName) return false;
  const auto plain = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c);
  };
  return plain(static_cast<unsigned char>(name.front())) &&
         plain(static_cast<unsigned char>(name.back())) &&
         std::all_of(name.begin(), name.end(),
                     [&](unsigned char c) { return plain(c) || c == '-' || c == '.'; });
}

// The name of the object `kind`, which must also have an id.
absl::StatusOr<std::string> NameOfObject(const json& in, const char* kind) {
  const json* const object = ObjectIn(in, kind);
  const std::string* const name = object == nullptr ? nullptr : TextIn(*object, "name");
  const std::string* const id = object == nullptr ? nullptr : TextIn(*object, "uid");
  if (name == nullptr || !IsObjectName(*name) || id == nullptr || id->empty()) {
    return Refused(absl::StrCat("it names no ", kind));
  }
  return *name;
}

absl::StatusOr<ServiceAccount> AccountOf(const json& claims) {
  const json* const cluster = ObjectIn(claims, "kubernetes.io");
  if (cluster == nullptr) return Refused("it is of no ServiceAccount");
  const std::string* const name_space = TextIn(*cluster, "namespace");
  if (name_space == nullptr || !IsNamespaceName(*name_space)) {
    return Refused("it names no namespace");
  }
  auto name = NameOfObject(*cluster, "serviceaccount");
  if (!name.ok()) return name.status();
  // One that is bound to nothing goes on when what it was made for is gone.
  auto pod = NameOfObject(*cluster, "pod");
  if (!pod.ok()) return pod.status();
  const std::string* const subject = TextIn(claims, "sub");
  if (subject == nullptr ||
      *subject != absl::StrCat("system:serviceaccount:", *name_space, ":", *name)) {
    return Refused("its sub is not that of the ServiceAccount that it names");
  }
  return ServiceAccount{*name_space, *std::move(name), *std::move(pod)};
}

}  // namespace

bool IsNamespaceName(absl::string_view name) {
  return IsObjectName(name) && name.size() <= kMaxNamespace && !absl::StrContains(name, '.');
}

bool LooksLikeAccountToken(absl::string_view text) {
  // `{"` in base64url.
  return absl::StartsWith(text, "eyJ") && absl::StrContains(text, '.');
}

absl::StatusOr<ServiceAccount> OpenAccountToken(absl::string_view token, const ClusterKeys& keys,
                                                const AccountTokenRules& rules, absl::Time now) {
  if (token.size() > kMaxAccountToken) return Refused("it is too long");
  if (std::count(token.begin(), token.end(), '.') != 2) return Refused("it has not three parts");
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  const auto header = OpenHeader(parts[0]);
  if (!header.ok()) return header.status();
  if (header->algorithm != NameOf(JwsAlgorithm::kRs256) &&
      header->algorithm != NameOf(JwsAlgorithm::kEs256)) {
    return Refused("its alg is not RS256 or ES256");
  }
  const ClusterKey* const key = keys.Find(header->key);
  if (key == nullptr) {
    return Refused(absl::StrCat("no key of the cluster has its kid ", header->key));
  }
  if (header->algorithm != NameOf(key->algorithm())) {
    return Refused("its alg is not that of its key");
  }
  const auto signature = DecodeBase64Url(parts[2]);
  if (!signature.has_value()) return Refused("its signature is not in base64url");
  if (!key->Signed(token.substr(0, parts[0].size() + 1 + parts[1].size()), *signature)) {
    return Refused("its signature is not the cluster's");
  }
  const auto text = DecodeBase64Url(parts[1]);
  if (!text.has_value()) return Refused("its claims are not in base64url");
  const auto claims = ParseJsonObject(*text, kClaimsBounds);
  if (!claims.ok()) return Refused(absl::StrCat("its claims: ", claims.status().message()));
  const std::string* const issuer = TextIn(*claims, "iss");
  if (issuer == nullptr || *issuer != rules.issuer) {
    return Refused(absl::StrCat("its issuer is not ", rules.issuer));
  }
  if (!IsFor(*claims, rules.audience)) {
    return Refused(absl::StrCat("it is not for ", rules.audience, " alone"));
  }
  if (auto status = CheckTimes(*claims, rules, now); !status.ok()) return status;
  return AccountOf(*claims);
}

}  // namespace warpline::scheduler
