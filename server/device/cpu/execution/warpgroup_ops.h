// The multiply of four warps: wgmma.mma_async, with matrices in shared memory that descriptors
// name.
//
// The handler is like those of matrix_ops. Each warp computes its own 16 rows at once, while it
// executes the instruction; wgmma.wait_group lets the four meet, so that a warp behind it knows
// that all have read what they multiply. Op::target is an index into
// KernelCode::warpgroup_multiplies.
//
// How descriptors say where elements are was measured on an H200. What base offsets do in swizzled
// matrices is not known: they fault.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_WARPGROUP_OPS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_WARPGROUP_OPS_H_

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

inline constexpr int kMaxWarpgroupColumns = 256;  // Of B and D
inline constexpr int kWarpgroupDepthBytes = 32;   // Of a row of A and of a column of B

bool WarpgroupMultiply(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_WARPGROUP_OPS_H_
