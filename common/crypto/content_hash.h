// The SHA-256 of a module image's bytes, by which the image is known.
#ifndef WARPLINE_COMMON_CRYPTO_CONTENT_HASH_H_
#define WARPLINE_COMMON_CRYPTO_CONTENT_HASH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace warpline {

using ContentHash = std::array<uint8_t, 32>;

// Hashes bytes that come piece by piece. Thread-compatible. Not copied.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;

  void Add(std::string_view bytes);
  // Call once, at the end. Returns false when OpenSSL failed somewhere; `*hash` then means nothing.
  bool Finish(ContentHash* hash);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

bool HashContent(std::string_view bytes, ContentHash* hash);

// Writes the hash as 64 lower-case hexadecimal digits.
std::string HashText(const ContentHash& hash);
// Reads what HashText() wrote; returns false for anything else.
bool ParseHash(std::string_view text, ContentHash* hash);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_CONTENT_HASH_H_
