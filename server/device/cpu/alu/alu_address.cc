// The arithmetic before a memory access.
#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

// Computes once for addresses of 32 bits, whose extremes vector instructions find, and once for 64.
template <typename T>
void Summarize(T* a, u32 mask, u32 bytes, AddressSummary* out) {
  if (mask != kAllLanes) {
    const T first = a[__builtin_ctz(mask)];
    for (int i = 0; i < kLanes; ++i) a[i] = (mask >> i & 1) != 0 ? a[i] : first;
  }
  T bits = 0, gaps = 0;
  for (int i = 0; i < kLanes; ++i) {
    bits |= a[i];
    gaps |= a[i] ^ T(a[0] + T(i) * bytes);
  }
  out->bits = bits;
  out->consecutive = gaps == 0 && mask == kAllLanes;
  T low = a[0], high = a[kLanes - 1];
  if (!out->consecutive || high < low) {
    high = low;
    for (int i = 1; i < kLanes; ++i) {
      low = a[i] < low ? a[i] : low;
      high = a[i] > high ? a[i] : high;
    }
  }
  out->low = low;
  out->high = high;
}

}  // namespace

void ComputeAddresses(const uint8_t* regs, const Op& op, u32 mask, u32 bytes, u64 base,
                      AddressSummary* out) {
  u64* const a = out->address;
  uint8_t* const slots = const_cast<uint8_t*>(regs);
  if (op.r[0] == kNoSlot) {
    for (int i = 0; i < kLanes; ++i) a[i] = base;
    out->low = out->high = out->bits = base;
    out->consecutive = false;
    return;
  }
  if (op.wide_address) {
    const u64* const r = Slot<const u64>(slots, op.r[0]);
    for (int i = 0; i < kLanes; ++i) a[i] = r[i] + base;
    Summarize(a, mask, bytes, out);
    return;
  }
  const u32* const r = Slot<const u32>(slots, op.r[0]);
  const u32 offset = u32(base);
  u32 narrow[kLanes];
  for (int i = 0; i < kLanes; ++i) narrow[i] = r[i] + offset;
  Summarize(narrow, mask, bytes, out);
  for (int i = 0; i < kLanes; ++i) a[i] = narrow[i];
}

}  // namespace warpline::cpu::WARPLINE_ALU
