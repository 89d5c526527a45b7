#include "lease/token.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/scheduler.pb.h"

namespace warpline {
namespace {

constexpr uint32_t kFormat = 1;
// So that a signature for something else is never one for a token.
constexpr char kPurpose[] = "warpline token 1:";

std::string Signed(absl::string_view body) { return absl::StrCat(kPurpose, body); }

int64_t ToMs(absl::Time time) {
  return time == absl::InfiniteFuture() ? 0 : absl::ToUnixMillis(time);
}

}  // namespace

absl::StatusOr<std::string> SignToken(const SigningKey& key, const LeaseToken& token) {
  warpline_internal::TokenBody body;
  body.set_format(kFormat);
  body.set_key(key.verify_key().id);
  body.set_lease(token.lease);
  body.set_tenant(token.tenant);
  body.set_server(token.server);
  body.set_device(token.device);
  body.set_memory_bytes(token.memory_bytes);
  body.set_max_sessions(token.max_sessions);
  body.set_rights(token.rights);
  body.set_expires_unix_ms(absl::ToUnixMillis(token.expires));
  body.set_ends_unix_ms(ToMs(token.ends));
  const std::string bytes = body.SerializeAsString();
  const auto signature = key.Sign(Signed(bytes));
  if (!signature.ok()) return signature.status();
  return absl::StrCat(absl::WebSafeBase64Escape(bytes), ".", absl::WebSafeBase64Escape(*signature));
}

absl::StatusOr<LeaseToken> OpenToken(absl::string_view text, const std::vector<VerifyKey>& keys) {
  const absl::Status malformed = absl::UnauthenticatedError("the token is malformed");
  if (text.size() > kMaxTokenText) return malformed;
  const size_t dot = text.find('.');
  std::string bytes;
  std::string signature;
  if (dot == absl::string_view::npos || !absl::WebSafeBase64Unescape(text.substr(0, dot), &bytes) ||
      !absl::WebSafeBase64Unescape(text.substr(dot + 1), &signature)) {
    return malformed;
  }
  warpline_internal::TokenBody body;
  if (!body.ParseFromString(bytes) || body.format() != kFormat) return malformed;
  const VerifyKey* key = nullptr;
  for (const VerifyKey& known : keys) {
    if (known.id == body.key()) key = &known;
  }
  if (key == nullptr) return absl::UnauthenticatedError("the token is signed by an unknown key");
  if (!VerifySignature(*key, Signed(bytes), signature)) {
    return absl::UnauthenticatedError("the token's signature is wrong");
  }
  LeaseToken token;
  token.lease = body.lease();
  token.tenant = body.tenant();
  token.server = body.server();
  token.device = body.device();
  token.memory_bytes = body.memory_bytes();
  token.max_sessions = body.max_sessions();
  token.rights = body.rights();
  token.expires = absl::FromUnixMillis(body.expires_unix_ms());
  if (body.ends_unix_ms() != 0) token.ends = absl::FromUnixMillis(body.ends_unix_ms());
  return token;
}

absl::Status CheckToken(const LeaseToken& token, absl::string_view server, absl::Time now) {
  if (token.server != server) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token is for server ", token.server, ", this is ", server));
  }
  if ((token.rights & ~kKnownRights) != 0) {
    return absl::UnauthenticatedError(
        "the token limits rights in a way that this server does not know");
  }
  if (now >= token.expires || now >= token.ends) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token of lease ", token.lease, " has expired"));
  }
  return absl::OkStatus();
}

}  // namespace warpline
