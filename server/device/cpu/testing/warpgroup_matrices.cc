#include "server/device/cpu/testing/warpgroup_matrices.h"

#include <cstring>

namespace warpline::cpu {
namespace {

constexpr uint32_t kPitches[] = {16, 128, 64, 32};
constexpr uint32_t kSwizzledBits[] = {0, 7, 3, 1};
constexpr uint32_t kHalfExponents = (127 - 15) << 10;  // What f32 has more than f16

// The register of D that has an element, and its place in that register.
struct PlaceOfD {
  size_t reg;
  int shift;
};
PlaceOfD FindPlaceOfD(std::string_view type, int columns, int row, int column) {
  const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
  const int index = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
  const int packed = type == "f16" ? 2 : 1;
  const int per_thread = columns / 2 / packed;
  return {static_cast<size_t>(thread * per_thread + index / packed), index % packed * 16};
}

}  // namespace

int ElementBytes(std::string_view type) {
  if (type == "s8" || type == "u8") return 1;
  return type == "f16" || type == "bf16" ? 2 : 4;
}

uint32_t EncodeElement(std::string_view type, int value) {
  if (type == "s8" || type == "u8") return static_cast<uint8_t>(value);
  if (type == "s32") return static_cast<uint32_t>(value);
  const auto number = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  if (type == "bf16") return bits >> 16;
  if (type != "f16") return bits;
  const uint32_t size = bits & 0x7fffffff;
  return (bits >> 16 & 0x8000) | (size == 0 ? 0 : (size >> 13) - kHalfExponents);
}

int DecodeElement(std::string_view type, uint32_t bits) {
  if (type == "s32") return static_cast<int>(bits);
  if (type == "f16") {
    const uint32_t size = bits & 0x7fff;
    bits = (bits & 0x8000) << 16 | (size == 0 ? 0 : (size + kHalfExponents) << 13);
  }
  float number;
  std::memcpy(&number, &bits, sizeof(number));
  return static_cast<int>(number);
}

uint32_t MatrixLayout::pitch() const { return kPitches[mode]; }

// Not swizzled, a block of eight rows of 16 bytes follows the other half of its 32 bytes.
uint32_t MatrixLayout::leading_bytes() const { return mode == 0 ? 128 : 16 * pitch(); }
uint32_t MatrixLayout::stride_bytes() const { return mode == 0 ? 256 : 8 * pitch(); }

uint64_t MatrixLayout::descriptor() const {
  return uint64_t{start >> 4} | uint64_t{leading_bytes() >> 4} << 16 |
         uint64_t{stride_bytes() >> 4} << 32 | uint64_t{mode} << 62;
}

uint32_t MatrixLayout::OffsetOf(int line, int k, int element_bytes) const {
  const auto l = static_cast<uint32_t>(line), depth = static_cast<uint32_t>(k);
  const auto bytes = static_cast<uint32_t>(element_bytes);
  uint32_t at = start;
  if (!transposed) {
    const uint32_t along = depth * bytes;
    at += l / 8 * stride_bytes() + l % 8 * pitch();
    at += along / 16 * (mode == 0 ? leading_bytes() : 16) + along % 16;
  } else {
    const uint32_t along = l * bytes;
    at += along / pitch() * (mode == 0 ? stride_bytes() : leading_bytes()) + along % pitch();
    at += depth / 8 * (mode == 0 ? leading_bytes() : stride_bytes()) + depth % 8 * pitch();
  }
  return at ^ (at >> 7 & kSwizzledBits[mode]) << 4;
}

void PlaceMatrix(const MatrixLayout& layout, std::string_view type, int lines,
                 const ElementFn& element, std::vector<uint8_t>* shared) {
  const int bytes = ElementBytes(type);
  for (int line = 0; line < lines; ++line) {
    for (int k = 0; k < 32 / bytes; ++k) {
      const uint32_t bits = EncodeElement(type, element(line, k));
      std::memcpy(&shared->at(layout.OffsetOf(line, k, bytes)), &bits, static_cast<size_t>(bytes));
    }
  }
}

std::vector<uint32_t> RegistersOfA(std::string_view type, const ElementFn& element) {
  const int bytes = ElementBytes(type), packed = 4 / bytes;
  std::vector<uint32_t> registers;
  for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
      uint32_t word = 0;
      for (int part = 0; part < packed; ++part) {
        const int k = (thread % 4 + i / 2 * 4) * packed + part;
        word |= EncodeElement(type, element(row, k)) << (8 * bytes * part);
      }
      registers.push_back(word);
    }
  }
  return registers;
}

std::vector<uint32_t> RegistersOfD(std::string_view type, int columns, const ElementFn& element) {
  std::vector<uint32_t> registers(static_cast<size_t>(64 * columns / (type == "f16" ? 2 : 1)));
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < columns; ++column) {
      const PlaceOfD place = FindPlaceOfD(type, columns, row, column);
      registers.at(place.reg) |= EncodeElement(type, element(row, column)) << place.shift;
    }
  }
  return registers;
}

int ElementOfD(std::string_view type, int columns, const std::vector<uint32_t>& registers, int row,
               int column) {
  const PlaceOfD place = FindPlaceOfD(type, columns, row, column);
  return DecodeElement(type, registers.at(place.reg) >> place.shift);
}

}  // namespace warpline::cpu
