#include "common/crypto/content_hash.h"

// The functions of SHA-256 itself, which newer OpenSSL would rather not have called: those of EVP
// set up the whole library when they are first used, which reads files and takes memory for good.
// In a worker the jail allows no files then, and its next worker, which hashes nothing while it
// takes over, would find other addresses free.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace warpline {

struct ContentHasher::State {
  SHA256_CTX context;
  bool ok = false;
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) {
  state_->ok = SHA256_Init(&state_->context) == 1;
}

ContentHasher::~ContentHasher() = default;

void ContentHasher::Add(std::string_view bytes) {
  if (state_->ok) state_->ok = SHA256_Update(&state_->context, bytes.data(), bytes.size()) == 1;
}

bool ContentHasher::Finish(ContentHash* hash) {
  static_assert(std::tuple_size_v<ContentHash> == SHA256_DIGEST_LENGTH);
  state_->ok = state_->ok && SHA256_Final(hash->data(), &state_->context) == 1;
  return state_->ok;
}

bool HashContent(std::string_view bytes, ContentHash* hash) {
  ContentHasher hasher;
  hasher.Add(bytes);
  return hasher.Finish(hash);
}

std::string HashText(const ContentHash& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool ParseHash(std::string_view text, ContentHash* hash) {
  if (text.size() != 2 * hash->size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return false;
    const int value = digit ? c - '0' : c - 'a' + 10;
    uint8_t& byte = (*hash)[i / 2];
    byte = static_cast<uint8_t>(i % 2 == 0 ? value << 4 : byte | value);
  }
  return true;
}

}  // namespace warpline
