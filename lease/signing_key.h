// Ed25519 keys, made with OpenSSL.
#ifndef WARPLINE_LEASE_SIGNING_KEY_H_
#define WARPLINE_LEASE_SIGNING_KEY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

// A public key, which checks signatures. Immutable and thread-safe.
struct VerifyKey {
  std::string id;          // Short, and different for different keys.
  std::string public_key;  // 32 bytes
};

// True when the holder of `key` made `signature`. False also for a malformed key.
bool VerifySignature(const VerifyKey& key, absl::string_view text, absl::string_view signature);

// A private key, which signs. Immutable and thread-safe.
class SigningKey {
 public:
  static absl::StatusOr<SigningKey> Generate();
  // Takes what private_bytes() gave. INVALID_ARGUMENT for bytes that are no key.
  static absl::StatusOr<SigningKey> FromPrivateBytes(absl::string_view bytes);

  const VerifyKey& verify_key() const { return verify_key_; }
  // 32 bytes. Keep them secret.
  const std::string& private_bytes() const { return private_bytes_; }
  absl::StatusOr<std::string> Sign(absl::string_view text) const;

 private:
  SigningKey(std::string private_bytes, VerifyKey verify_key)
      : private_bytes_(std::move(private_bytes)), verify_key_(std::move(verify_key)) {}

  std::string private_bytes_;
  VerifyKey verify_key_;
};

// The SHA-256 of `text`, 32 bytes.
std::string Sha256(absl::string_view text);

}  // namespace warpline

#endif  // WARPLINE_LEASE_SIGNING_KEY_H_
