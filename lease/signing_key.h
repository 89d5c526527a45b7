// Ed25519 keys, by OpenSSL.
#ifndef WARPLINE_LEASE_SIGNING_KEY_H_
#define WARPLINE_LEASE_SIGNING_KEY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

// What checks signatures. Immutable and thread-safe.
struct VerifyKey {
  std::string id;          // Short, and different for different keys.
  std::string public_key;  // 32 bytes
};

// True when `signature` is that of the holder of `key`; false also for a malformed key.
bool VerifySignature(const VerifyKey& key, absl::string_view text, absl::string_view signature);

// What signs. Immutable and thread-safe.
class SigningKey {
 public:
  static absl::StatusOr<SigningKey> Generate();
  // From PrivateBytes(). INVALID_ARGUMENT for what is no key.
  static absl::StatusOr<SigningKey> FromPrivateBytes(absl::string_view bytes);

  const VerifyKey& verify_key() const { return verify_key_; }
  // 32 bytes, secret.
  const std::string& private_bytes() const { return private_bytes_; }
  absl::StatusOr<std::string> Sign(absl::string_view text) const;

 private:
  SigningKey(std::string private_bytes, VerifyKey verify_key)
      : private_bytes_(std::move(private_bytes)), verify_key_(std::move(verify_key)) {}

  std::string private_bytes_;
  VerifyKey verify_key_;
};

// SHA-256, 32 bytes.
std::string Sha256(absl::string_view text);

}  // namespace warpline

#endif  // WARPLINE_LEASE_SIGNING_KEY_H_
