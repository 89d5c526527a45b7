#include "server/device/cpu/execution/matrix_elements.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "server/device/cpu/alu/half_float.h"
#include "server/device/cpu/execution/block.h"

namespace warpline::cpu {
namespace {

struct TypeRow {
  std::string_view name;
  MatrixType type;
  int bytes;
};
constexpr TypeRow kTypes[] = {
    {"f16", MatrixType::kF16, 2}, {"bf16", MatrixType::kBf16, 2}, {"tf32", MatrixType::kTf32, 4},
    {"f32", MatrixType::kF32, 4}, {"f64", MatrixType::kF64, 8},   {"s8", MatrixType::kS8, 1},
    {"u8", MatrixType::kU8, 1},   {"s32", MatrixType::kS32, 4},
};

}  // namespace

bool FindMatrixType(std::string_view name, MatrixType* type) {
  for (const TypeRow& row : kTypes) {
    if (row.name != name) continue;
    *type = row.type;
    return true;
  }
  return false;
}

int BytesOf(MatrixType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.bytes;
  }
  return 4;
}

bool IsInteger(MatrixType type) {
  return type == MatrixType::kS8 || type == MatrixType::kU8 || type == MatrixType::kS32;
}

int ElementsPerRegister(MatrixType type) { return std::max(4 / BytesOf(type), 1); }

int ElementsPerLane(const Matrix& matrix) {
  return static_cast<int>(matrix.slots.size()) * ElementsPerRegister(matrix.type);
}

uint8_t* ElementOf(uint8_t* regs, const Matrix& matrix, int lane, int index) {
  const int bytes = BytesOf(matrix.type);
  const int per = ElementsPerRegister(matrix.type);
  const uint32_t slot = matrix.slots[static_cast<size_t>(index / per)];
  const int column = std::max(bytes, 4);
  return regs + slot + static_cast<ptrdiff_t>(lane) * column +
         static_cast<ptrdiff_t>(index % per) * bytes;
}

double ReadFloat(const uint8_t* at, MatrixType type) {
  uint16_t half;
  uint32_t word;
  float narrow;
  double wide;
  switch (type) {
    case MatrixType::kF16:
      std::memcpy(&half, at, sizeof(half));
      return F16::Widen(half);
    case MatrixType::kBf16:
      std::memcpy(&half, at, sizeof(half));
      return Bf16::Widen(half);
    case MatrixType::kTf32:
      std::memcpy(&word, at, sizeof(word));
      word &= ~uint32_t{0x1fff};
      std::memcpy(&narrow, &word, sizeof(narrow));
      return narrow;
    case MatrixType::kF64:
      std::memcpy(&wide, at, sizeof(wide));
      return wide;
    default:
      std::memcpy(&narrow, at, sizeof(narrow));
      return narrow;
  }
}

void WriteFloat(uint8_t* at, MatrixType type, double value) {
  if (type == MatrixType::kF64) {
    std::memcpy(at, &value, sizeof(value));
  } else if (type == MatrixType::kF16) {
    const uint16_t half = F16::Narrow(value);
    std::memcpy(at, &half, sizeof(half));
  } else {
    const auto narrow = static_cast<float>(value);
    std::memcpy(at, &narrow, sizeof(narrow));
  }
}

int64_t ReadInteger(const uint8_t* at, MatrixType type) {
  if (type == MatrixType::kS8) return static_cast<int8_t>(*at);
  if (type == MatrixType::kU8) return *at;
  int32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

void WriteInteger(uint8_t* at, bool saturate, int64_t value) {
  if (saturate) value = std::clamp<int64_t>(value, INT32_MIN, INT32_MAX);
  const auto narrow = static_cast<int32_t>(value);
  std::memcpy(at, &narrow, sizeof(narrow));
}

bool IsWholeWarp(Block& block, const Op& op, uint32_t mask) {
  if (mask == kAllLanes) return true;
  return block.Fault(CudaResult::kIllegalInstruction, op, "matrix operation of a part of a warp");
}

}  // namespace warpline::cpu
