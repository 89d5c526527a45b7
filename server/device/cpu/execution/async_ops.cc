#include "server/device/cpu/execution/async_ops.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_addresses.h"
#include "server/device/cpu/execution/lane_registers.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kCountMask = (1 << 20) - 1;
constexpr int kExpectedShift = 20;
constexpr int kPhaseShift = 40;

// Calls visit(lane, barrier) for each lane.
template <typename Visit>
bool ForBarriers(Block& block, const Warp& warp, const uint8_t* regs, const Op& op, uint32_t mask,
                 Visit visit) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const auto address = Lane<uint64_t>(regs, op.r[1], i);
    uint64_t host;
    if (!ResolveGeneric(block, warp, i, address, 8, true, &host)) {
      return block.Fault(CudaResult::kIllegalAddress, op,
                         absl::StrFormat("mbarrier at generic address 0x%x", address));
    }
    if (address % 8 != 0 || host % 8 != 0) {
      return block.Fault(CudaResult::kMisalignedAddress, op, "misaligned mbarrier");
    }
    visit(i, *reinterpret_cast<uint64_t*>(host));
  }
  return true;
}

}  // namespace

bool CopyAsync(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  const auto bytes = static_cast<uint32_t>(op.imm);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const auto to = Lane<uint64_t>(regs, op.r[1], i);
    const auto from = Lane<uint64_t>(regs, op.r[2], i);
    const uint32_t take = std::min(Lane<uint32_t>(regs, op.r[3], i), bytes);
    uint64_t target, source = 0;
    if (to % bytes != 0 || (take != 0 && from % bytes != 0)) {
      return block.Fault(CudaResult::kMisalignedAddress, op, "misaligned cp.async");
    }
    if (!ResolveGeneric(block, warp, i, to, bytes, true, &target)) {
      return block.Fault(CudaResult::kIllegalAddress, op,
                         absl::StrFormat("cp.async to generic address 0x%x", to));
    }
    if (take != 0 && !ResolveGeneric(block, warp, i, from, take, false, &source)) {
      return block.Fault(CudaResult::kIllegalAddress, op,
                         absl::StrFormat("cp.async from generic address 0x%x", from));
    }
    uint8_t data[16] = {};
    if (take != 0) std::memcpy(data, reinterpret_cast<const void*>(source), take);
    std::memcpy(reinterpret_cast<void*>(target), data, bytes);
  }
  return true;
}

bool BarrierInit(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return ForBarriers(block, warp, regs, op, mask, [&](int i, uint64_t& word) {
    const uint64_t count = Lane<uint32_t>(regs, op.r[2], i) & kCountMask;
    word = count | count << kExpectedShift;
  });
}

bool BarrierArrive(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  return ForBarriers(block, warp, regs, op, mask, [&](int i, uint64_t& word) {
    const uint64_t count = Lane<uint32_t>(regs, op.r[2], i);
    if (op.r[0] != kNoSlot) SetLane(regs, op.r[0], i, word);
    uint64_t pending = word & kCountMask;
    uint64_t expected = word >> kExpectedShift & kCountMask;
    uint64_t phase = word >> kPhaseShift;
    if (op.imm != 0) expected -= std::min(count, expected);
    pending -= std::min(count, pending);
    if (pending == 0) {
      pending = expected;
      ++phase;
    }
    word = pending | expected << kExpectedShift | phase << kPhaseShift;
  });
}

bool BarrierTest(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  uint32_t bits = PredicateBits(regs, op.r[0]);
  const bool ok = ForBarriers(block, warp, regs, op, mask, [&](int i, uint64_t& word) {
    const uint64_t phase = word >> kPhaseShift;
    const bool ended = op.imm != 0 ? (phase & 1) != (Lane<uint32_t>(regs, op.r[2], i) & 1)
                                   : phase != Lane<uint64_t>(regs, op.r[2], i) >> kPhaseShift;
    bits = (bits & ~(1u << i)) | static_cast<uint32_t>(ended) << i;
  });
  SetPredicateBits(regs, op.r[0], bits);
  return ok;
}

bool BarrierPending(Block&, Warp&, uint8_t* regs, const Op& op, uint32_t mask) {
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    SetLane(regs, op.r[0], i, static_cast<uint32_t>(Lane<uint64_t>(regs, op.r[1], i) & kCountMask));
  }
  return true;
}

}  // namespace warpline::cpu
