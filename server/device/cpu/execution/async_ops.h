// cp.async and mbarrier. Copies are done at once, so waiting for them is nothing.
//
// Handlers as in memory_ops; addresses are generic, in a register each. An mbarrier is a 64-bit
// word of shared memory: arrivals still expected in the low 20 bits, arrivals of a whole phase in
// the next 20, the number of the phase above them.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// r[1] to, r[2] from, r[3] how many of imm bytes are copied; the rest becomes zero.
bool CopyAsync(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

// r[1] is the barrier.
bool BarrierInit(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// r[0] is the state before or kNoSlot, r[2] how many arrive; imm 1 takes them out of later phases.
bool BarrierArrive(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// Predicate r[0]: has the phase of state r[2] ended? imm 1: r[2] is a parity of 32 bits.
bool BarrierTest(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// r[0] is the count in state r[1].
bool BarrierPending(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_ASYNC_OPS_H_
