#include "common/crypto/piece_cipher.h"

#include <openssl/err.h>

#include "common/crypto/openssl.h"

namespace warpline {
namespace {

constexpr size_t kNonceBytes = 12;

// Returns the number in kSize bytes, the most significant one first.
template <size_t kSize>
std::array<unsigned char, kSize> BigEndian(uint64_t number) {
  static_assert(kSize >= sizeof(number));
  std::array<unsigned char, kSize> bytes = {};
  for (size_t i = kSize; number != 0; number >>= 8) bytes[--i] = number & 0xff;
  return bytes;
}

EVP_CIPHER_CTX* NewContext() {
  UseOpenSsl();
  return EVP_CIPHER_CTX_new();
}

}  // namespace

PieceCipher::PieceCipher(const std::string& key, uint64_t pieces, Direction direction)
    : direction_(direction),
      pieces_(BigEndian<sizeof(pieces)>(pieces)),
      context_(NewContext(), &EVP_CIPHER_CTX_free) {
  ok_ = key.size() == kKeyBytes && context_ != nullptr &&
        EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr,
                          reinterpret_cast<const unsigned char*>(key.data()), nullptr,
                          static_cast<int>(direction_)) == 1;
}

// OpenSSL keeps its errors for the thread's next call that asks.
PieceCipher::~PieceCipher() { ERR_clear_error(); }

absl::Status PieceCipher::Encrypt(uint64_t number, unsigned char* piece, int bytes, Tag* tag) {
  if (direction_ != Direction::kEncrypt || !Convert(number, piece, bytes) || !Finish() ||
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag->size()),
                          tag->data()) != 1) {
    return absl::InternalError("OpenSSL cannot encrypt it");
  }
  return absl::OkStatus();
}

absl::Status PieceCipher::Decrypt(uint64_t number, unsigned char* piece, int bytes,
                                  const Tag& tag) {
  Tag wanted = tag;
  if (direction_ != Direction::kDecrypt || !Convert(number, piece, bytes) ||
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(wanted.size()),
                          wanted.data()) != 1) {
    return absl::InternalError("OpenSSL cannot decrypt it");
  }
  return Finish() ? absl::OkStatus() : absl::DataLossError("it is not what was encrypted");
}

bool PieceCipher::Convert(uint64_t number, unsigned char* piece, int bytes) {
  int size = 0;
  return ok_ &&
         EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr,
                           BigEndian<kNonceBytes>(number).data(),
                           static_cast<int>(direction_)) == 1 &&
         Authenticate(BigEndian<sizeof(number)>(number)) && Authenticate(pieces_) &&
         EVP_CipherUpdate(context_.get(), piece, &size, piece, bytes) == 1 && size == bytes;
}

bool PieceCipher::Authenticate(const Number& number) {
  int size = 0;
  return EVP_CipherUpdate(context_.get(), nullptr, &size, number.data(),
                          static_cast<int>(number.size())) == 1;
}

bool PieceCipher::Finish() {
  // This cipher gives all bytes before, and writes none here.
  std::array<unsigned char, EVP_MAX_BLOCK_LENGTH> rest;
  int size = 0;
  return EVP_CipherFinal_ex(context_.get(), rest.data(), &size) == 1 && size == 0;
}

}  // namespace warpline
