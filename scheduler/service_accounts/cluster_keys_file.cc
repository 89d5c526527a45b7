// The forms of files with public keys: JWKS and PEM.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/openssl.h"
#include "lease/signing_key.h"
#include "scheduler/service_accounts/base64url.h"
#include "scheduler/service_accounts/bounded_json.h"
#include "scheduler/service_accounts/cluster_key.h"

namespace warpline::scheduler {
namespace {

using nlohmann::json;

// x5c certificates may stand beside each key.
constexpr JsonBounds kBounds = {.bytes = kMaxClusterKeysBytes, .depth = 6, .values = 4096};

// The private numbers of RSA keys and of points, and a symmetric key (RFC 7518, section 6).
constexpr const char* kPrivate[] = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"};

absl::Status PrivateKeyFound() {
  return absl::InvalidArgumentError(
      "it holds a private key, which signs tokens for anybody: only public keys belong here");
}

std::optional<std::string> NumberIn(const json& key, const char* name) {
  const std::string* const text = TextIn(key, name);
  return text == nullptr ? std::nullopt : DecodeBase64Url(*text);
}

// A key of a set. INVALID_ARGUMENT for one that is left out.
absl::StatusOr<ClusterKey> KeyOf(const json& from) {
  const std::string* const id = TextIn(from, "kid");
  if (id == nullptr || id->empty() || id->size() > kMaxKeyId) {
    return absl::InvalidArgumentError("it has no kid");
  }
  const std::string* const use = TextIn(from, "use");
  if (from.contains("use") && (use == nullptr || *use != "sig")) {
    return absl::InvalidArgumentError("it is not for signatures");
  }
  const std::string* const type = TextIn(from, "kty");
  absl::StatusOr<ClusterKey> key = absl::InvalidArgumentError("a key is of RSA or P-256");
  if (type != nullptr && *type == "RSA") {
    const auto n = NumberIn(from, "n"), e = NumberIn(from, "e");
    if (!n.has_value() || !e.has_value()) return absl::InvalidArgumentError("it has no n and e");
    key = ClusterKey::FromRsa(*id, *n, *e);
  } else if (type != nullptr && *type == "EC") {
    const std::string* const curve = TextIn(from, "crv");
    if (curve == nullptr || *curve != "P-256") return key.status();
    const auto x = NumberIn(from, "x"), y = NumberIn(from, "y");
    if (!x.has_value() || !y.has_value()) return absl::InvalidArgumentError("it has no x and y");
    key = ClusterKey::FromPoint(*id, *x, *y);
  }
  if (!key.ok() || !from.contains("alg")) return key;
  const std::string* const algorithm = TextIn(from, "alg");
  if (algorithm == nullptr || *algorithm != NameOf(key->algorithm())) {
    return absl::InvalidArgumentError("its alg is not RS256 of RSA or ES256 of P-256");
  }
  return key;
}

absl::Status Add(absl::StatusOr<ClusterKey> key, const std::string& name, ClusterKeys* keys) {
  if (!key.ok()) {
    keys->left_out.push_back(absl::StrCat(name, ": ", key.status().message()));
    return absl::OkStatus();
  }
  if (keys->Find(key->id()) != nullptr) {
    return absl::InvalidArgumentError("two of its keys have the same id");
  }
  keys->keys.push_back(*std::move(key));
  return absl::OkStatus();
}

absl::StatusOr<ClusterKeys> ParseSet(absl::string_view text) {
  const auto set = ParseJsonObject(text, kBounds);
  if (!set.ok()) return set.status();
  const json* const list = ListIn(*set, "keys");
  if (list == nullptr) return absl::InvalidArgumentError("it has no list \"keys\"");
  if (list->size() > kMaxClusterKeys) {
    return absl::InvalidArgumentError(absl::StrCat("it has more than ", kMaxClusterKeys, " keys"));
  }
  ClusterKeys keys;
  for (const json& from : *list) {
    if (!from.is_object()) return absl::InvalidArgumentError("one of its keys is no object");
    for (const char* const name : kPrivate) {
      if (from.contains(name)) return PrivateKeyFound();
    }
    const std::string* const id = TextIn(from, "kid");
    const std::string name = absl::StrCat(
        "key ", id == nullptr ? absl::StrCat(keys.keys.size() + keys.left_out.size() + 1) : *id);
    if (auto status = Add(KeyOf(from), name, &keys); !status.ok()) return status;
  }
  return keys;
}

// As Kubernetes has it, which calls a key so in the tokens that it signs.
std::string IdOf(const EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return "";
  const std::string id = EncodeBase64Url(
      Sha256(absl::string_view(reinterpret_cast<const char*>(der), static_cast<size_t>(size))));
  OPENSSL_free(der);
  return id;
}

// A block of PEM.
struct Block {
  std::string kind;
  std::string der;
};

// NOT_FOUND when there is none any more.
absl::StatusOr<Block> NextBlock(BIO* in) {
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  UseOpenSsl();
  ERR_clear_error();
  if (PEM_read_bio(in, &name, &header, &data, &size) != 1) {
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE) {
      return absl::NotFoundError("the end");
    }
    return absl::InvalidArgumentError("it holds a block of PEM that is damaged");
  }
  Block block{name, std::string(reinterpret_cast<const char*>(data), static_cast<size_t>(size))};
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(data);
  return block;
}

absl::StatusOr<ClusterKey> KeyOf(const Block& block) {
  if (block.kind != PEM_STRING_PUBLIC) {
    return absl::InvalidArgumentError("it is no PUBLIC KEY");
  }
  const auto* der = reinterpret_cast<const unsigned char*>(block.der.data());
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      d2i_PUBKEY(nullptr, &der, static_cast<long>(block.der.size())), &EVP_PKEY_free);
  const std::string id = key == nullptr ? "" : IdOf(key.get());
  return ClusterKey::FromOpenSsl(id, std::move(key));
}

absl::StatusOr<ClusterKeys> ParsePem(absl::string_view text) {
  if (absl::StrContains(text, "PRIVATE KEY")) return PrivateKeyFound();
  const std::unique_ptr<BIO, void (*)(BIO*)> in(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
      [](BIO* bio) { (void)BIO_free(bio); });
  if (in == nullptr) return absl::ResourceExhaustedError("there is no memory for it");
  ClusterKeys keys;
  for (size_t number = 1;; ++number) {
    const auto block = NextBlock(in.get());
    if (absl::IsNotFound(block.status())) break;
    if (!block.ok()) return block.status();
    if (number > kMaxClusterKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has more than ", kMaxClusterKeys, " keys"));
    }
    auto added = Add(KeyOf(*block), absl::StrCat("key ", number), &keys);
    if (!added.ok()) return added;
  }
  if (keys.keys.empty()) {
    return absl::InvalidArgumentError("it is neither a JWKS nor public keys in PEM");
  }
  return keys;
}

}  // namespace

absl::StatusOr<ClusterKeys> ParseClusterKeys(absl::string_view text) {
  if (text.size() > kMaxClusterKeysBytes) return absl::InvalidArgumentError("it is too long");
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != absl::string_view::npos && text[first] == '{') return ParseSet(text);
  return ParsePem(text);
}

}  // namespace warpline::scheduler
