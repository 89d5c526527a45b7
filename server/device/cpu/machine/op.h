// An instruction of the CPU device: what lowering makes of PTX and the executor runs.
//
// A warp's registers are columns of 32 lanes. An Op names them by byte offset into the current
// frame: a 16-bit register takes 64 bytes, a 32-bit one 128, a 64-bit one 256, and a predicate 4
// (one bit a lane). Ops are plain values, and immutable once they are in a KernelCode.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MACHINE_OP_H_
#define WARPLINE_SERVER_DEVICE_CPU_MACHINE_OP_H_

#include <cstddef>
#include <cstdint>

namespace warpline::cpu {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kWarpsPerWarpgroup = 4;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNoSlot = 0xffffffffu;

// Generic addresses of state spaces that are not global memory. Their low 32 bits are zero, so that
// programs that cut a generic shared address to 32 bits get the shared address.
inline constexpr uint64_t kSharedWindow = 0xfffe'0000'0000'0000;
inline constexpr uint64_t kLocalWindow = 0xfffd'0000'0000'0000;
inline constexpr uint64_t kParamWindow = 0xfffc'0000'0000'0000;
inline constexpr uint64_t kFirstWindow = kParamWindow;
// Functions have addresses from here on, at which nothing lies: base + kFunctionStep * (number +
// 1).
inline constexpr uint64_t kFunctionBase = 0x7fff'0000'0000'0000;
inline constexpr uint64_t kFunctionStep = 16;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

enum class OpKind : uint8_t {
  kAlu,   // alu(registers, op, mask)
  kLoad,  // memory(block, warp, op, mask)
  kStore,
  kAtomic,
  kBranch,        // to `target`
  kCall,          // KernelCode::calls[target]
  kCallIndirect,  // KernelCode::indirect_calls[target], by the address in r[0]
  kReturn,
  kExit,
  kTrap,  // A fault: imm is the CudaResult

  kBarrier,   // bar.sync, bar.red, bar.arrive, wgmma.wait_group
  kWarpSync,  // shfl, vote, match, redux, bar.warp: waits for the lanes of its member mask
  kActiveMask,
  kSpecial,       // r[0] = special register `special`
  kLocalAddress,  // r[0] = imm + start of the local frame
  kFence,
  kSleep,  // For r[0] nanoseconds
};

enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kGridId,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClock,
  kClockHi,
  kClock64,
  kGlobaltimer,
  kGlobaltimerLo,
  kGlobaltimerHi,
  kEnvReg1,  // Halves of the workspace's address, for cooperative launches
  kEnvReg2,
  kZero,
  kOne,
  kTotalSmem,
  kAggrSmem,
  kDynamicSmem,
};

enum class BarrierKind : uint8_t {
  kSync,
  kArrive,
  kPopc,
  kAnd,
  kOr,
  kWarpgroup,  // One of the warpgroup's own, which has no number in PTX
};

enum class WarpSyncKind : uint8_t {
  kBarrier,
  kShflUp,
  kShflDown,
  kShflBfly,
  kShflIdx,
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduxAdd,
  kReduxMinU,
  kReduxMinS,
  kReduxMaxU,
  kReduxMaxS,
  kReduxAnd,
  kReduxOr,
  kReduxXor,
  kElect,
  kMoveTile,  // movmatrix: columns become rows.
};

struct Op;
class Block;
struct Warp;
using AluFn = void (*)(uint8_t* regs, const Op& op, uint32_t mask);
// Returns false after it has recorded a fault in the block.
using MemoryFn = bool (*)(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask);

struct Op {
  union {
    AluFn alu;
    MemoryFn memory;
  };
  uint64_t imm = 0;
  uint32_t r[6] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  uint32_t guard = kNoSlot;  // Predicate slot
  uint32_t target = 0;
  uint32_t line = 0;
  uint16_t cost = 0;  // How many instructions more it counts for in a warp's turn.
  OpKind kind = OpKind::kAlu;
  bool guard_negated = false;
  bool negated = false;       // For a predicate operand.
  bool wide_address = false;  // The address register has 64 bits.
  bool ordered = false;       // volatile, relaxed or stronger: needs atomic accesses.
  bool wide = false;          // True for a 64-bit operand of match.
  uint8_t vector = 1;         // Elements of a vector access.
  uint8_t bytes = 0;          // Size of one element in memory.
  Space space = Space::kGlobal;
  union {
    Special special;
    BarrierKind barrier;
    WarpSyncKind warp_sync;
    uint8_t sub;
  };

  Op() : alu(nullptr), sub(0) {}
};

// The widths of register slots, in bytes per lane; predicates have a slot of their own kind.
enum class Width : uint8_t { kPred = 0, k16 = 2, k32 = 4, k64 = 8 };

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MACHINE_OP_H_
