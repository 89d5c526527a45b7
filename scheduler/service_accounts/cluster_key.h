// The public keys by which a Kubernetes cluster's API server signs ServiceAccount tokens.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_CLUSTER_KEY_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_CLUSTER_KEY_H_

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::scheduler {

// What a key signs with follows from the key, and never from what a token says.
enum class JwsAlgorithm {
  kRs256,  // RSA, PKCS #1 v1.5, SHA-256; a key of 2048 to 8192 bits.
  kEs256,  // ECDSA with P-256 and SHA-256.
};

// "RS256" or "ES256" (RFC 7518, section 3.1).
absl::string_view NameOf(JwsAlgorithm algorithm);

// Immutable, and so thread-safe.
class ClusterKey {
 public:
  // INVALID_ARGUMENT for a key of another kind or size, or a point that is not on the curve.
  static absl::StatusOr<ClusterKey> FromOpenSsl(std::string id,
                                                std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key);
  // `modulus` and `exponent` are big-endian numbers.
  static absl::StatusOr<ClusterKey> FromRsa(std::string id, absl::string_view modulus,
                                            absl::string_view exponent);
  // Of P-256: 32 bytes each.
  static absl::StatusOr<ClusterKey> FromPoint(std::string id, absl::string_view x,
                                              absl::string_view y);

  // The `kid` of tokens that it signs.
  const std::string& id() const { return id_; }
  JwsAlgorithm algorithm() const { return algorithm_; }
  // Whether `signature`, as a JWS has it, is this key's of `text`. Whatever they are, the work is
  // that of one signature.
  bool Signed(absl::string_view text, absl::string_view signature) const;

 private:
  ClusterKey(std::string id, JwsAlgorithm algorithm, std::shared_ptr<EVP_PKEY> key)
      : id_(std::move(id)), algorithm_(algorithm), key_(std::move(key)) {}

  std::string id_;
  JwsAlgorithm algorithm_;
  std::shared_ptr<EVP_PKEY> key_;  // Shared by copies of this, which do not change it.
};

// The keys of a file.
struct ClusterKeys {
  std::vector<ClusterKey> keys;
  // Why others of the file are not taken, for the log.
  std::vector<std::string> left_out;

  // Null for an unknown id.
  const ClusterKey* Find(absl::string_view id) const;
};

inline constexpr size_t kMaxClusterKeysBytes = 256u << 10;
inline constexpr size_t kMaxClusterKeys = 64;
inline constexpr size_t kMaxKeyId = 256;

// Reads a JWKS (RFC 7517), as the API server serves it at /openid/v1/jwks, or public keys in PEM,
// as it is given them in --service-account-key-file; the id of such a one is the one that the API
// server derives: the SHA-256 of its SubjectPublicKeyInfo. Keys of other kinds, sizes and uses are
// left out. INVALID_ARGUMENT for what is neither, has an id twice or holds a private key, which
// must not be here. There may be no keys.
absl::StatusOr<ClusterKeys> ParseClusterKeys(absl::string_view text);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_CLUSTER_KEY_H_
