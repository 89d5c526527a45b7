#include "common/crypto/content_hash.h"

#include <openssl/evp.h>

namespace warpline {

struct ContentHasher::State {
  EVP_MD_CTX* context = nullptr;
  bool ok = false;
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) {
  state_->context = EVP_MD_CTX_new();
  state_->ok =
      state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1;
}

ContentHasher::~ContentHasher() { EVP_MD_CTX_free(state_->context); }

void ContentHasher::Add(std::string_view bytes) {
  if (state_->ok) {
    state_->ok = EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1;
  }
}

bool ContentHasher::Finish(ContentHash* hash) {
  unsigned int size = 0;
  state_->ok = state_->ok && EVP_DigestFinal_ex(state_->context, hash->data(), &size) == 1 &&
               size == hash->size();
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
