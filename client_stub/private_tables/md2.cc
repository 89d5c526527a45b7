#include "client_stub/private_tables/md2.h"

#include <algorithm>

namespace warpline {
namespace {

// RFC 1319, 3.2: a permutation of 0..255 made from the digits of pi.
constexpr uint8_t kPi[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,   //
    98,  167, 5,   243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202,  //
    30,  155, 87,  60,  253, 212, 224, 22,  103, 66,  111, 24,  138, 23,  229, 18,   //
    190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142, 187, 47,  238, 122,  //
    169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137, 11,  34,  95,  33,   //
    128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151, 3,    //
    255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198,  //
    79,  184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241,  //
    69,  157, 112, 89,  100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,    //
    27,  96,  37,  173, 174, 176, 185, 246, 28,  70,  97,  105, 52,  64,  126, 15,   //
    85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,   //
    44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,   //
    106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,   //
    120, 136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254, 59,  0,   29,  57,   //
    242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,   //
    49,  68,  80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,   //
};

constexpr int kRounds = 18;

std::string_view AsBytes(const std::array<uint8_t, 16>& array) {
  return {reinterpret_cast<const char*>(array.data()), array.size()};
}

}  // namespace

void Md2::Update(std::string_view bytes) {
  for (const char byte : bytes) {
    block_[filled_++] = static_cast<uint8_t>(byte);
    if (filled_ == kBlockSize) AbsorbBlock();
  }
}

Md2Digest Md2::Finish() {
  // 1 to 16 bytes of padding follow, each with the value of their number; then the checksum as a
  // block of its own.
  const auto padding = static_cast<uint8_t>(kBlockSize - filled_);
  std::fill(block_.begin() + filled_, block_.end(), padding);
  AbsorbBlock();
  block_ = checksum_;
  CompressBlock();
  return state_;
}

void Md2::AbsorbBlock() {
  uint8_t last = checksum_.back();
  for (size_t i = 0; i < kBlockSize; ++i) {
    checksum_[i] ^= kPi[block_[i] ^ last];
    last = checksum_[i];
  }
  CompressBlock();
  filled_ = 0;
}

void Md2::CompressBlock() {
  std::array<uint8_t, 3 * kBlockSize> mixed;
  for (size_t i = 0; i < kBlockSize; ++i) {
    mixed[i] = state_[i];
    mixed[i + kBlockSize] = block_[i];
    mixed[i + 2 * kBlockSize] = state_[i] ^ block_[i];
  }
  uint8_t last = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (uint8_t& byte : mixed) {
      byte ^= kPi[last];
      last = byte;
    }
    last = static_cast<uint8_t>(last + round);
  }
  std::copy_n(mixed.begin(), kBlockSize, state_.begin());
}

Md2Digest HmacMd2(const std::array<uint8_t, 16>& key, std::string_view message) {
  std::array<uint8_t, 16> inner_key;
  std::array<uint8_t, 16> outer_key;
  for (size_t i = 0; i < key.size(); ++i) {
    inner_key[i] = key[i] ^ 0x36;
    outer_key[i] = key[i] ^ 0x5c;
  }
  Md2 inner;
  inner.Update(AsBytes(inner_key));
  inner.Update(message);
  const Md2Digest inner_digest = inner.Finish();
  Md2 outer;
  outer.Update(AsBytes(outer_key));
  outer.Update(AsBytes(inner_digest));
  return outer.Finish();
}

}  // namespace warpline
