#include "server/device/cpu/execution/warpgroup_ops.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_registers.h"
#include "server/device/cpu/execution/matrix_elements.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {
namespace {

constexpr int kRows = 64;  // Of A and D
constexpr int kRowsPerWarp = 16;
constexpr uint32_t kChunkBytes = 16;  // What lies together in every layout

// The elements along K of one row of A or one column of B.
using Line = std::array<uint8_t, kWarpgroupDepthBytes>;
using Lines = std::array<Line, kMaxWarpgroupColumns>;

struct SwizzleMode {
  uint32_t pitch;  // Bytes from one row of eight to the next
  uint64_t mask;   // Which of the bits 7 to 9 of an address change its bits 4 to 6
};
constexpr SwizzleMode kModes[4] = {{16, 0}, {128, 7}, {64, 3}, {32, 1}};

// Reads a matrix in shared memory whose descriptor is `bits`.
class SharedMatrix {
 public:
  SharedMatrix(Block& block, const Op& op, uint64_t bits)
      : block_(block),
        op_(op),
        start_((bits & 0x3fff) << 4),
        leading_bytes_((bits >> 16 & 0x3fff) << 4),
        stride_bytes_((bits >> 32 & 0x3fff) << 4),
        base_offset_(bits >> 49 & 7),
        mode_(kModes[bits >> 62]) {}

  // Both return false after a fault.
  bool Read(int count, bool transposed, Lines* lines) const {
    if (is_swizzled() && base_offset_ != 0) {
      return block_.Fault(CudaResult::kIllegalInstruction, op_, "matrix with a base offset");
    }
    return transposed ? ReadTransposed(count, lines) : ReadAlongK(count, lines);
  }

 private:
  bool is_swizzled() const { return mode_.mask != 0; }

  bool ReadAlongK(int count, Lines* lines) const {
    const uint64_t step = is_swizzled() ? kChunkBytes : leading_bytes_;
    for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
      for (uint32_t half = 0; half < 2; ++half) {
        const uint64_t at = start_ + i / 8 * stride_bytes_ + i % 8 * mode_.pitch + half * step;
        const uint8_t* const chunk = Chunk(at);
        if (chunk == nullptr) return false;
        std::memcpy(&(*lines)[i][half * size_t{kChunkBytes}], chunk, kChunkBytes);
      }
    }
    return true;
  }

  // Elements of 16 bits: a chunk has those of eight lines at one place along K.
  bool ReadTransposed(int count, Lines* lines) const {
    const uint64_t group_bytes = is_swizzled() ? leading_bytes_ : stride_bytes_;
    const uint64_t half_bytes = is_swizzled() ? stride_bytes_ : leading_bytes_;
    for (uint32_t i = 0; i < static_cast<uint32_t>(count); i += 8) {
      const uint32_t along = i * 2;  // Bytes
      const uint64_t base = start_ + along / mode_.pitch * group_bytes + along % mode_.pitch;
      for (uint32_t k = 0; k < 16; ++k) {
        const uint8_t* const chunk = Chunk(base + k / 8 * half_bytes + k % 8 * mode_.pitch);
        if (chunk == nullptr) return false;
        for (size_t n = 0; n < 8; ++n) std::memcpy(&(*lines)[i + n][2 * k], chunk + 2 * n, 2);
      }
    }
    return true;
  }

  // Returns null after a fault.
  const uint8_t* Chunk(uint64_t address) const {
    address ^= (address >> 7 & mode_.mask) << 4;
    if (address + kChunkBytes <= block_.shared_bytes()) return block_.shared() + address;
    block_.Fault(CudaResult::kIllegalAddress, op_,
                 absl::StrFormat("matrix at shared address 0x%x", address));
    return nullptr;
  }

  Block& block_;
  const Op& op_;
  const uint64_t start_;
  const uint64_t leading_bytes_;
  const uint64_t stride_bytes_;
  const uint64_t base_offset_;
  const SwizzleMode& mode_;
};

// Each register has four bytes of a row, whatever the type.
void GatherA(const WarpgroupSite& site, const uint8_t* regs, Lines* lines) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < site.a.size(); ++i) {
      std::memcpy(&(*lines)[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16],
                  regs + site.a[i] + 4 * lane, 4);
    }
  }
}

// Returns where an element of D is, of this warp's rows.
uint8_t* ElementOfD(const WarpgroupSite& site, uint8_t* regs, int row, int column) {
  const int lane = row % 8 * 4 + column % 8 / 2;
  return ElementOf(regs, site.d, lane, column / 8 * 4 + row / 8 * 2 + column % 2);
}

// Products of factors are exact in a sum, and are added in the order of K.
template <typename Factor, typename Sum, typename Read, typename Write>
void Multiply(const WarpgroupSite& site, uint8_t* regs, bool accumulates, const Line* a,
              const Line* b, Read read, Write write) {
  const auto bytes = static_cast<size_t>(BytesOf(site.a_type));
  const size_t depth = kWarpgroupDepthBytes / bytes;
  const int columns = site.d.columns;
  std::array<std::array<Factor, kMaxWarpgroupColumns>, kWarpgroupDepthBytes> factors;
  for (size_t k = 0; k < depth; ++k) {
    for (size_t n = 0; n < static_cast<size_t>(columns); ++n) {
      factors[k][n] = static_cast<Factor>(read(&b[n][k * bytes], site.b_type));
    }
  }
  for (int row = 0; row < kRowsPerWarp; ++row) {
    std::array<Sum, kMaxWarpgroupColumns> sums{};
    for (int n = 0; accumulates && n < columns; ++n) {
      sums[static_cast<size_t>(n)] = read(ElementOfD(site, regs, row, n), site.d.type);
    }
    for (size_t k = 0; k < depth; ++k) {
      const Sum value = read(&a[row][k * bytes], site.a_type);
      const Sum factor = site.negate ? -value : value;
      for (size_t n = 0; n < static_cast<size_t>(columns); ++n) sums[n] += factor * factors[k][n];
    }
    for (int n = 0; n < columns; ++n) {
      write(ElementOfD(site, regs, row, n), sums[static_cast<size_t>(n)]);
    }
  }
}

bool IsWholeWarpgroup(Block& block, const Warp& warp, const Op& op) {
  const std::array<uint32_t, 3>& size = block.shape().block;
  const uint32_t first = warp.index / kWarpsPerWarpgroup * kWarpsPerWarpgroup;
  const uint32_t threads = (first + kWarpsPerWarpgroup) * kLanes;
  if (threads <= size[0] * size[1] * size[2]) return true;
  return block.Fault(CudaResult::kIllegalInstruction, op, "multiply of a part of a warpgroup");
}

}  // namespace

bool WarpgroupMultiply(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  if (!IsWholeWarp(block, op, mask) || !IsWholeWarpgroup(block, warp, op)) return false;
  const WarpgroupSite& site = block.code().warpgroup_multiplies[op.target];
  Lines a, b;
  size_t first_row = 0;
  if (site.a_descriptor == kNoSlot) {
    GatherA(site, regs, &a);
  } else {
    first_row = warp.index % kWarpsPerWarpgroup * size_t{kRowsPerWarp};
    const SharedMatrix matrix(block, op, Lane<uint64_t>(regs, site.a_descriptor, 0));
    if (!matrix.Read(kRows, site.a_transposed, &a)) return false;
  }
  const SharedMatrix matrix(block, op, Lane<uint64_t>(regs, site.b_descriptor, 0));
  if (!matrix.Read(site.d.columns, site.b_transposed, &b)) return false;
  const bool bit = (PredicateBits(regs, site.accumulates) & 1) != 0;
  const bool accumulates = bit != site.accumulates_negated;
  const Line* const rows = &a[first_row];
  if (IsInteger(site.d.type)) {
    Multiply<int32_t, int64_t>(
        site, regs, accumulates, rows, b.data(), ReadInteger,
        [&](uint8_t* at, int64_t value) { WriteInteger(at, site.saturate, value); });
  } else {
    Multiply<float, double>(site, regs, accumulates, rows, b.data(), ReadFloat,
                            [&](uint8_t* at, double value) { WriteFloat(at, site.d.type, value); });
  }
  return true;
}

}  // namespace warpline::cpu
