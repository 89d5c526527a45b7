#include "server/device/cpu/execution/matrix_ops.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_format.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_addresses.h"
#include "server/device/cpu/execution/lane_registers.h"
#include "server/device/cpu/execution/matrix_elements.h"

namespace warpline::cpu {
namespace {

constexpr size_t kMaxElements = 512;

// Where an element is in a matrix that lies row by row.
size_t Flat(int row, int columns, int column) {
  return static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column);
}

struct Position {
  int row;
  int column;
};

// wmma leaves the layout open: here elements follow each other, and places beyond them repeat them.
Position WmmaPosition(const Matrix& matrix, int lane, int index) {
  const int per_lane = matrix.rows * matrix.columns / kLanes;
  const int at = lane * per_lane + index % per_lane;
  return {at / matrix.columns, at % matrix.columns};
}

// Returns the position of an element in the layouts that PTX prescribes for mma.
Position MmaPosition(const MatrixSite& site, const Matrix& matrix, int lane, int index) {
  const int group = lane / 4, member = lane % 4;
  if (&matrix == &site.c || &matrix == &site.d) {
    return {group + index / 2 * 8, member * 2 + index % 2};
  }
  const int per = ElementsPerRegister(matrix.type);
  const int reg = index / per, part = index % per;
  if (&matrix == &site.b) return {member * per + part + reg * 4 * per, group};
  if (matrix.rows == 8) return {group, member * per + part + reg * 4 * per};
  return {group + reg % 2 * 8, member * per + part + reg / 2 * 4 * per};
}

Position Where(const MatrixSite& site, const Matrix& matrix, int lane, int index) {
  return site.wmma ? WmmaPosition(matrix, lane, index) : MmaPosition(site, matrix, lane, index);
}

template <typename V, typename Read>
void Gather(const MatrixSite& site, const Matrix& matrix, uint8_t* regs, Read read,
            std::array<V, kMaxElements>* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < ElementsPerLane(matrix); ++i) {
      const Position at = Where(site, matrix, lane, i);
      (*out)[Flat(at.row, matrix.columns, at.column)] =
          read(ElementOf(regs, matrix, lane, i), matrix.type);
    }
  }
}

template <typename V, typename Read, typename Write>
void Multiply(const MatrixSite& site, uint8_t* regs, Read read, Write write) {
  std::array<V, kMaxElements> a{}, b{}, c{};
  Gather(site, site.a, regs, read, &a);
  Gather(site, site.b, regs, read, &b);
  Gather(site, site.c, regs, read, &c);
  const int k_end = site.a.columns, columns = site.b.columns;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < ElementsPerLane(site.d); ++i) {
      const Position at = Where(site, site.d, lane, i);
      V sum = c[Flat(at.row, columns, at.column)];
      for (int k = 0; k < k_end; ++k) {
        sum += a[Flat(at.row, k_end, k)] * b[Flat(k, columns, at.column)];
      }
      write(ElementOf(regs, site.d, lane, i), sum);
    }
  }
}

bool Transfer(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask, bool store) {
  if (!IsWholeWarp(block, op, mask)) return false;
  const MatrixSite& site = block.code().matrices[op.target];
  const Matrix& matrix = site.d;
  const int bytes = BytesOf(matrix.type);
  const auto size = static_cast<uint32_t>(bytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto stride = Lane<uint32_t>(regs, site.stride, lane);
    const uint64_t base = Lane<uint64_t>(regs, site.address, lane);
    for (int i = 0; i < ElementsPerLane(matrix); ++i) {
      const Position at = WmmaPosition(matrix, lane, i);
      const auto row = static_cast<uint64_t>(at.row), column = static_cast<uint64_t>(at.column);
      const uint64_t index = site.column_major ? column * stride + row : row * stride + column;
      const uint64_t address = base + index * size;
      uint64_t host;
      if (!ResolveGeneric(block, warp, lane, address, size, store, &host)) {
        return block.Fault(CudaResult::kIllegalAddress, op,
                           absl::StrFormat("matrix at generic address 0x%x", address));
      }
      uint8_t* const element = ElementOf(regs, matrix, lane, i);
      auto* const memory = reinterpret_cast<void*>(host);
      std::memcpy(store ? memory : element, store ? element : memory, size);
    }
  }
  return true;
}

bool Tiles(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask, bool store) {
  if (!IsWholeWarp(block, op, mask)) return false;
  const MatrixSite& site = block.code().matrices[op.target];
  for (size_t tile = 0; tile < site.d.slots.size(); ++tile) {
    uint64_t rows[8];
    for (int row = 0; row < 8; ++row) {
      const int lane = static_cast<int>(tile) * 8 + row;
      const uint64_t address = Lane<uint64_t>(regs, site.address, lane);
      if (address % 16 != 0) {
        return block.Fault(CudaResult::kMisalignedAddress, op, "misaligned row of a matrix");
      }
      if (!ResolveGeneric(block, warp, lane, address, 16, store, &rows[row])) {
        return block.Fault(CudaResult::kIllegalAddress, op,
                           absl::StrFormat("row of a matrix at generic address 0x%x", address));
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int part = 0; part < 2; ++part) {
        const int minor = lane % 4 * 2 + part;
        const int row = site.column_major ? minor : lane / 4;
        const int column = site.column_major ? lane / 4 : minor;
        auto* const memory = reinterpret_cast<uint8_t*>(rows[row]) + ptrdiff_t{2} * column;
        uint8_t* const element =
            regs + site.d.slots[tile] + (ptrdiff_t{4} * lane + ptrdiff_t{2} * part);
        std::memcpy(store ? memory : element, store ? element : memory, 2);
      }
    }
  }
  return true;
}

}  // namespace

bool MatrixMultiply(Block& block, Warp&, uint8_t* regs, const Op& op, uint32_t mask) {
  if (!IsWholeWarp(block, op, mask)) return false;
  const MatrixSite& site = block.code().matrices[op.target];
  if (IsInteger(site.d.type)) {
    Multiply<int64_t>(site, regs, ReadInteger,
                      [&](uint8_t* at, int64_t value) { WriteInteger(at, site.saturate, value); });
  } else {
    Multiply<double>(site, regs, ReadFloat,
                     [&](uint8_t* at, double value) { WriteFloat(at, site.d.type, value); });
  }
  return true;
}

bool MatrixLoad(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return Transfer(block, warp, regs, op, mask, false);
}
bool MatrixStore(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return Transfer(block, warp, regs, op, mask, true);
}
bool TileLoad(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return Tiles(block, warp, regs, op, mask, false);
}
bool TileStore(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return Tiles(block, warp, regs, op, mask, true);
}

}  // namespace warpline::cpu
