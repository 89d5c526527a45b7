// The decoded form of a kernel: its instructions, what they refer to, and how much memory they
// need.
//
// Plain values; immutable once they are built.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MACHINE_KERNEL_CODE_H_
#define WARPLINE_SERVER_DEVICE_CPU_MACHINE_KERNEL_CODE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// A slot that holds one value in all lanes.
struct ConstantSlot {
  uint32_t slot;
  Width width;
  uint64_t bits;
};

// Bytes that move between the local frames of caller and callee, or between registers of the two.
struct CallCopy {
  uint32_t caller = 0;
  uint32_t callee = 0;
  uint32_t bytes = 0;  // For a register: bytes per lane, 0 for a predicate.
  bool is_register = false;
};

struct CallSite {
  uint32_t function = 0;  // Index into KernelCode::functions
  uint32_t caller = 0;    // Index of the caller there
  std::vector<CallCopy> arguments;
  std::vector<CallCopy> results;
};

// The functions that an indirect call may reach: those whose address is taken and whose parameters
// fit. They are sorted by address; the second number is an index into KernelCode::calls.
struct IndirectSite {
  std::vector<std::pair<uint64_t, uint32_t>> targets;
};

enum class MatrixType : uint8_t { kF16, kBf16, kTf32, kF32, kF64, kS8, kU8, kS32 };

// A matrix that the lanes of a warp hold together, in these registers of each lane.
struct Matrix {
  MatrixType type = MatrixType::kF16;
  int rows = 0;
  int columns = 0;
  std::vector<uint32_t> slots;
};

// An operation on matrices; loads and stores work on `d`.
struct MatrixSite {
  Matrix a, b, c, d;
  bool wmma = false;          // The CPU device chooses the layout in registers.
  bool column_major = false;  // In memory
  bool saturate = false;
  uint32_t address = kNoSlot;  // Generic, 64 bits
  uint32_t stride = kNoSlot;   // 32 bits, in elements
};

// A multiply of a warpgroup, of which each warp has 16 rows of D: D = A * B, or A * B + D. What is
// not in registers lies in shared memory, where descriptors say.
struct WarpgroupSite {
  Matrix d;
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  std::vector<uint32_t> a;          // The four registers of A; empty where A has a descriptor
  uint32_t a_descriptor = kNoSlot;  // 64 bits
  uint32_t b_descriptor = kNoSlot;  // 64 bits
  uint32_t accumulates = kNoSlot;   // A predicate: whether D is added
  bool accumulates_negated = false;
  bool negate = false;        // The products
  bool a_transposed = false;  // Elements of one column of A follow each other in memory.
  bool b_transposed = false;  // Elements of one row of B follow each other in memory.
  bool saturate = false;
};

struct FunctionCode {
  std::string name;
  uint32_t entry_pc = 0;
  uint32_t frame_bytes = 0;  // Registers
  uint32_t local_bytes = 0;  // .local and .param variables of one thread
};

struct KernelCode {
  std::string name;
  std::vector<Op> ops;
  std::vector<FunctionCode> functions;  // functions[0] is the kernel.
  std::vector<CallSite> calls;
  std::vector<IndirectSite> indirect_calls;
  std::vector<MatrixSite> matrices;
  std::vector<WarpgroupSite> warpgroup_multiplies;
  std::vector<ConstantSlot> constants;                 // Those of the kernel's frame.
  std::vector<std::pair<Special, uint32_t>> specials;  // In that frame, filled for each block.
  // True when the kernel calls itself; the sizes below are then those of a stack of the default
  // size.
  bool recursive = false;
  uint32_t register_bytes = 0;  // For a warp, over the deepest chain of calls.
  uint32_t local_bytes = 0;     // For a thread, over the deepest chain of calls.
  uint32_t max_depth = 0;       // Depth of calls.
  uint32_t static_shared_bytes = 0;
  uint32_t shared_alignment = 16;
  uint32_t register_count = 0;  // 32-bit registers in the sense of CUDA, an estimate.
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MACHINE_KERNEL_CODE_H_
