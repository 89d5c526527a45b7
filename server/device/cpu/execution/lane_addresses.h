// Where the lanes of a memory operation point, after all checks. Private to memory_ops and atomics.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_ADDRESSES_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_ADDRESSES_H_

#include <cstdint>

#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Here AddressSummary::address holds places in this process; those of idle lanes are valid, too.
using LaneAddresses = AddressSummary;

// Computes and checks the addresses; `bytes` is what one lane accesses. Returns false after a
// fault.
bool ResolveLanes(Block& block, Warp& warp, const uint8_t* regs, const Op& op, uint32_t mask,
                  uint32_t bytes, bool is_store, LaneAddresses* lanes);

// Turns one lane's access at a generic address into a place in this process. Returns false when the
// access is not allowed. The caller checks the alignment.
bool ResolveGeneric(const Block& block, const Warp& warp, int lane, uint64_t address,
                    uint32_t bytes, bool is_store, uint64_t* host);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_ADDRESSES_H_
