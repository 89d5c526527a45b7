#include "server/device/cpu/execution/lane_addresses.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/execution/block.h"

namespace warpline::cpu {
namespace {

bool Refuse(Block& block, const Op& op, uint64_t address, const char* space, uint32_t bytes) {
  return block.Fault(
      CudaResult::kIllegalAddress, op,
      absl::StrFormat("access of %d bytes at %s address 0x%x", bytes, space, address));
}

const char* SpaceName(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "global";
    case Space::kShared:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "parameter";
    case Space::kGeneric:
      break;
  }
  return "generic";
}

// Whether [offset, offset + bytes) lies in a window of `size` bytes.
bool InWindow(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// Resolves one lane's address in any space; returns false when it may not be accessed.
bool ResolveOne(const Block& block, const Warp& warp, Space space, int lane, uint64_t address,
                uint32_t bytes, bool is_store, uint64_t* host) {
  const LaunchShape& shape = block.shape();
  if (space == Space::kGeneric) {
    if (address < kFirstWindow) {
      space = Space::kGlobal;
    } else {
      const uint64_t window = address & ~(kWindowBytes - 1);
      space = window == kSharedWindow  ? Space::kShared
              : window == kLocalWindow ? Space::kLocal
              : window == kParamWindow ? Space::kParam
                                       : Space::kGlobal;
      if (space != Space::kGlobal) address -= window;
    }
  }
  switch (space) {
    case Space::kShared:
      *host = reinterpret_cast<uint64_t>(block.shared()) + address;
      return InWindow(address, bytes, block.shared_bytes());
    case Space::kLocal:
      *host = reinterpret_cast<uint64_t>(block.local(warp, lane)) + address;
      return InWindow(address, bytes, block.local_bytes());
    case Space::kParam:
      *host = reinterpret_cast<uint64_t>(shape.params.data()) + address;
      return !is_store && InWindow(address, bytes, shape.params.size());
    default:
      *host = address;
      return shape.memory->Contains(address, bytes, is_store ? kWrites : kReads);
  }
}

}  // namespace

bool ResolveGeneric(const Block& block, const Warp& warp, int lane, uint64_t address,
                    uint32_t bytes, bool is_store, uint64_t* host) {
  return ResolveOne(block, warp, Space::kGeneric, lane, address, bytes, is_store, host);
}

bool ResolveLanes(Block& block, Warp& warp, const uint8_t* regs, const Op& op, uint32_t mask,
                  uint32_t bytes, bool is_store, LaneAddresses* lanes) {
  static const AddressFn compute = FindAddressFn();
  uint64_t base = op.imm;
  if (op.r[0] == kNoSlot && op.space == Space::kLocal) base += warp.current.local_frame;
  compute(regs, op, mask, bytes, base, lanes);
  const uint64_t low = lanes->low, high = lanes->high;
  uint64_t* const a = lanes->address;
  if ((lanes->bits & (bytes - 1)) != 0) {
    return block.Fault(CudaResult::kMisalignedAddress, op,
                       absl::StrCat("misaligned access of ", bytes, " bytes"));
  }
  // Checks the whole span at once when it is one piece.
  const LaunchShape& shape = block.shape();
  const bool spans = high - low < (uint64_t{1} << 32) && high + bytes > high;
  switch (spans ? op.space : Space::kGeneric) {
    case Space::kShared:
      if (high + bytes > block.shared_bytes()) break;
      for (int i = 0; i < kLanes; ++i) a[i] += reinterpret_cast<uint64_t>(block.shared());
      return true;
    case Space::kParam:
      if (is_store || high + bytes > shape.params.size()) break;
      for (int i = 0; i < kLanes; ++i) a[i] += reinterpret_cast<uint64_t>(shape.params.data());
      return true;
    case Space::kLocal:
      if (high + bytes > block.local_bytes()) break;
      for (int i = 0; i < kLanes; ++i) a[i] += reinterpret_cast<uint64_t>(block.local(warp, i));
      lanes->consecutive = false;
      return true;
    default:
      if (spans && high < kFirstWindow && high - low <= 4 * kGranuleBytes &&
          (shape.memory->InArena(low, high - low + bytes, is_store ? kWrites : kReads) ||
           InWindow(low - shape.variables_address, high - low + bytes, shape.variables_bytes))) {
        return true;
      }
      break;
  }
  uint64_t valid = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    uint64_t host = 0;
    if (!ResolveOne(block, warp, op.space, i, a[i], bytes, is_store, &host)) {
      return Refuse(block, op, a[i], SpaceName(op.space), bytes);
    }
    a[i] = host;
    valid = host;
  }
  if (mask != kAllLanes) {
    for (int i = 0; i < kLanes; ++i) a[i] = (mask >> i & 1) != 0 ? a[i] : valid;
  }
  if (op.space == Space::kLocal || op.space == Space::kGeneric) lanes->consecutive = false;
  return true;
}

}  // namespace warpline::cpu
