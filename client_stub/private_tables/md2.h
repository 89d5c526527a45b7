// MD2 (RFC 1319) and HMAC-MD2 (RFC 2104). MD2 is broken as cryptography; it is here only because
// the validity check of the CUDA runtime is built on it. Thread-compatible.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_MD2_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_MD2_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpline {

using Md2Digest = std::array<uint8_t, 16>;

class Md2 {
 public:
  void Update(std::string_view bytes);

  // Returns the digest of everything given to Update(). Call once, as the last call.
  Md2Digest Finish();

 private:
  static constexpr size_t kBlockSize = 16;

  void AbsorbBlock();    // Takes block_ into checksum_ and state_.
  void CompressBlock();  // Takes block_ into state_.

  Md2Digest state_{};
  std::array<uint8_t, kBlockSize> block_{};
  std::array<uint8_t, kBlockSize> checksum_{};
  size_t filled_ = 0;  // Bytes of block_ in use, below kBlockSize between calls.
};

// `key` is exactly one block long; longer or shorter keys are not needed here and not supported.
Md2Digest HmacMd2(const std::array<uint8_t, 16>& key, std::string_view message);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_MD2_H_
