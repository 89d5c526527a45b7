// Matrices that the threads of a warp hold together: mma, wmma, ldmatrix, stmatrix.
//
// The handlers are like those of memory_ops, but serve whole warps: a part of one faults.
// Op::target is an index into KernelCode::matrices. Products are summed in f64 and rounded once,
// which is at least as exact as hardware.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_OPS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_OPS_H_

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// D = A * B + C.
bool MatrixMultiply(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// wmma.load and wmma.store of the matrix in MatrixSite::d.
bool MatrixLoad(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
bool MatrixStore(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
// ldmatrix and stmatrix: tiles of 8 by 8 elements of 16 bits.
bool TileLoad(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);
bool TileStore(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_OPS_H_
