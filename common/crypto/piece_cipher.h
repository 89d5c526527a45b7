// Encrypts one content piece by piece, so that a changed, moved or missing piece is noticed.
#ifndef WARPLINE_COMMON_CRYPTO_PIECE_CIPHER_H_
#define WARPLINE_COMMON_CRYPTO_PIECE_CIPHER_H_

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace warpline {

// AES-256-GCM (NIST SP 800-38D). The nonce of a piece is its number, as 96 bits, the most
// significant byte first. The tag also authenticates the number and how many pieces the content
// has. Since a nonce must not come twice with a key, a key encrypts one content, each piece of it
// once.
//
// Thread-compatible. Keeps a copy of the key, which is overwritten at the end.
class PieceCipher {
 public:
  static constexpr size_t kKeyBytes = 32;
  using Tag = std::array<uint8_t, 16>;
  enum class Direction { kDecrypt = 0, kEncrypt = 1 };

  // `key` has kKeyBytes bytes and is not used after this; the content has `pieces` pieces.
  PieceCipher(const std::string& key, uint64_t pieces, Direction direction);
  ~PieceCipher();
  PieceCipher(const PieceCipher&) = delete;
  PieceCipher& operator=(const PieceCipher&) = delete;

  // Encrypts the `bytes` bytes of piece `number` where they are. INTERNAL if OpenSSL failed.
  absl::Status Encrypt(uint64_t number, unsigned char* piece, int bytes, Tag* tag);

  // Decrypts the piece where it is. DATA_LOSS if it is not the one that `tag` was made for,
  // INTERNAL if OpenSSL failed. After an error its bytes mean nothing.
  absl::Status Decrypt(uint64_t number, unsigned char* piece, int bytes, const Tag& tag);

 private:
  using Number = std::array<unsigned char, 8>;

  bool Convert(uint64_t number, unsigned char* piece, int bytes);
  bool Authenticate(const Number& number);
  bool Finish();

  const Direction direction_;
  const Number pieces_;
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context_;
  bool ok_ = false;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_PIECE_CIPHER_H_
