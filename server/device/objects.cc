#include "server/device/objects.h"

#include <algorithm>

#include "common/array_format.h"

namespace warpline::device {
namespace {

uint64_t Multiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t{0} : product;
}

}  // namespace

uint64_t ArrayShape::bytes() const {
  // Compressed and planar formats have at most this much for each of their elements.
  constexpr uint64_t kMostElementBytes = 16;
  const uint64_t known = ArrayElementBytes(format, channels);
  const uint64_t element = known != 0 ? known : kMostElementBytes;
  uint64_t total = 0;
  for (uint32_t level = 0; level < std::max(levels, 1u) && level < 64; ++level) {
    uint64_t bytes = Multiply(LevelExtent(width, level), element);
    bytes = Multiply(bytes, LevelExtent(height, level));
    bytes = Multiply(
        bytes, (flags & kLayered) != 0 ? std::max<uint64_t>(depth, 1) : LevelExtent(depth, level));
    if (__builtin_add_overflow(total, bytes, &total)) return ~uint64_t{0};
  }
  return total;
}

uint64_t LevelExtent(uint64_t extent, uint32_t level) {
  return std::max<uint64_t>(level < 64 ? extent >> level : 0, 1);
}

}  // namespace warpline::device
