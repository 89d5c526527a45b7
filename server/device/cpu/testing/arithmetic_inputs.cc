#include "server/device/cpu/testing/arithmetic_inputs.h"

#include <cstring>
#include <iterator>

namespace warpline::cpu {
namespace {

constexpr size_t kWords = 4;

constexpr uint64_t kIntegers[] = {
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
    0x7fff,
    0x8000,
    0x8001,
    0xffff,
    0x10000,
    0xdeadbeef,
    0x12345678,
    0x7fffffff,
    0x80000000,
    0x80000001,
    0xffffffff,
    0x100000000,
    0x123456789abcdef0,
    0x7fffffffffffffff,
    0x8000000000000000,
    0x8000000000000001,
    0xfffffffffffffffe,
    0xffffffffffffffff,
    0x1f04,
    0xffffff80,
    0xffffffffffffff80,
    0xffff8000,
};
constexpr uint32_t kFloats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000, 0x3fc00000, 0xbfc00000,
    0x40200000, 0xc0200000, 0x40490fdb, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
    0x80800000, 0x00800001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fc12345,
    0x7f800001, 0xffc00000, 0x7fffffff, 0x501502f9, 0x4f000000, 0xcf000000, 0x4f800000, 0x477fff80,
    0x46ffff00, 0x437f8000, 0xc3008000, 0x5f000000, 0x5f800000, 0xdf000000, 0x4b800001, 0x1e3ce508,
    0x3f7fffff, 0x33800000, 0x34000001, 0x4effffff, 0x3dcccccd, 0x42c80000,
};
constexpr uint64_t kDoubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x3fe0000000000000, 0xbfe0000000000000, 0x3ff8000000000000, 0xbff8000000000000,
    0x4004000000000000, 0xc004000000000000, 0x400921fb54442d18, 0x0000000000000001,
    0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
    0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
    0x7ff8000012345678, 0x7ff0000000000001, 0xfff8000000000000, 0x41dfffffffc00000,
    0x41e0000000000000, 0xc1e0000000000000, 0xc1e0000000200000, 0x41f0000000000000,
    0x43e0000000000000, 0xc3e0000000000000, 0x43f0000000000000, 0x40effff000000000,
    0x40dfffe000000000, 0x406ff00000000000, 0xc060100000000000, 0x36a0000000000000,
    0x3690000000000000, 0x380fffffe0000000, 0x3810000000000000, 0x47efffffe0000000,
    0x47effffff0000000, 0x3ff0000010000000, 0x3ff0000030000000, 0x4340000000000001,
    0x3fb999999999999a, 0x4059000000000000,
};

template <typename T, size_t kCount>
T Pick(const T (&values)[kCount], uint64_t index) {
  return values[index % kCount];
}

// A deterministic function that mixes well.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t Value(char code, size_t thread, size_t position) {
  constexpr size_t kEdges = 46;
  static_assert(std::size(kIntegers) == kEdges && std::size(kFloats) == kEdges &&
                std::size(kDoubles) == kEdges);
  // Every pair of edge cases for the first two operands, then random values.
  const uint64_t random = Mix(thread * kWords + position);
  const bool edges = thread < kEdges * kEdges;
  const uint64_t index = position == 0 ? thread : position == 1 ? thread / kEdges : random >> 8;
  if (edges || (random & 3) == 0) {
    if (code == 'f') return Pick(kFloats, index);
    if (code == 'd') return Pick(kDoubles, index);
    return Pick(kIntegers, index);
  }
  if (code == 'f' || code == 'd') {
    // Magnitudes are moderate, so that sums and products are not all infinite.
    const double value = (static_cast<double>(random >> 11) / 9007199254740992.0 - 0.5) *
                         static_cast<double>(uint64_t{1} << (random & 40));
    uint64_t bits = 0;
    if (code == 'd') {
      std::memcpy(&bits, &value, sizeof(value));
    } else {
      const auto narrow = static_cast<float>(value);
      std::memcpy(&bits, &narrow, sizeof(narrow));
    }
    return bits;
  }
  return (random & 4) != 0 ? random >> (random & 63) : random;
}

}  // namespace

std::vector<uint64_t> ArithmeticInputs(const ArithmeticCase& test) {
  std::vector<uint64_t> words(kArithmeticThreads * kWords);
  for (size_t thread = 0; thread < kArithmeticThreads; ++thread) {
    for (size_t i = 0; i < test.sources.size(); ++i) {
      words[thread * kWords + i] = Value(test.sources[i], thread, i);
    }
  }
  return words;
}

uint64_t HashResults(const std::vector<uint64_t>& results) {
  uint64_t hash = 0;
  for (const uint64_t word : results) hash = Mix(hash ^ word);
  return hash;
}

}  // namespace warpline::cpu
