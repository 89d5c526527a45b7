// cp.async and mbarrier. Copies are done at once, so waiting for them does nothing.
//
// The handlers are like those of memory_ops; addresses are generic and lie in one register each. An
// mbarrier is a 64-bit word of shared memory: its low 20 bits are the arrivals that are still
// expected, the next 20 the arrivals of a whole phase, and the bits above them the number of the
// phase.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// r[1] is the destination, r[2] the source, and r[3] says how many of imm bytes are copied; the
// rest become zero.
bool CopyAsync(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

// r[1] is the barrier.
bool BarrierInit(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// r[0] is the state before or kNoSlot, and r[2] says how many arrive; imm 1 takes them out of later
// phases.
bool BarrierArrive(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// Predicate r[0] becomes whether the phase of state r[2] has ended. With imm 1, r[2] is a parity of
// 32 bits.
bool BarrierTest(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// r[0] becomes the count in state r[1].
bool BarrierPending(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_
