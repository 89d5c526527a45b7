// Describes the instructions of PTX: what each operand is, and which memory an instruction touches.
//
// One table serves all code that walks a syntax tree and must know what it does: the CPU device's
// lowering takes its dispatch, its operands and its accesses from it. Refuse an instruction that is
// not in the table, or that has an unknown modifier which could change the memory that it touches.
//
//   Description ld;
//   if (Describe(instruction, &ld) != Verdict::kKnown) return Refuse(instruction);
//   for (const MemoryAccess& access : ld.accesses()) Check(instruction.operands[access.operand]);
//
// Thread-safe.
#ifndef WARPLINE_PTX_INSTRUCTION_SET_H_
#define WARPLINE_PTX_INSTRUCTION_SET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "ptx/ast.h"
#include "ptx/types.h"

namespace warpline::ptx {

// A group of instructions that are handled alike.
enum class Family : uint8_t {
  kArithmetic,  // Works from registers to registers and on nothing else
  kMove,
  kCompare,
  kSet,
  kConvert,
  kConvertAddress,
  kTestSpace,
  kLoad,
  kStore,
  kAtomic,
  kBranch,
  kCall,
  kReturn,
  kExit,
  kTrap,
  kFence,
  kSleep,
  kHint,  // Changes nothing that a program can see
  kCopyAsync,
  kCopyAsyncGroup,
  kCopyAsyncArrive,
  kBulkCopy,  // Of bytes whose number is a register
  kBarrierInit,
  kBarrierEnd,
  kBarrierArrive,
  kBarrierTest,
  kBarrierPending,
  kBarrierExpect,  // Of bytes that bulk copies are to bring
  kMatrixMultiply,
  kWmmaMultiply,
  kWarpgroupMultiply,
  kWarpgroupOrder,  // Of the former, which runs beside the program
  kWmmaLoad,
  kWmmaStore,
  kTileLoad,
  kTileStore,
  kBlockBarrier,
  kWarpBarrier,
  kShuffle,
  kVote,
  kMatch,
  kReduce,
  kActiveMask,
  kElect,
  kTileMove,     // From registers to registers of a warp
  kCachePolicy,  // Makes what the operand behind L2::cache_hint may be.
};

// What an operand is to its instruction.
enum class Role : uint8_t {
  kDestination,  // Registers that are written: one, a vector, a pair, or `_`
  kSource,       // Registers that are read, a literal, or the address of a symbol
  kPredicate,    // A predicate that is read, negated or not
  kImmediate,    // A literal
  kAddress,      // [a], which MemoryAccess describes
  kTarget,       // A label, a function, a prototype
  kList,         // Arguments or results of a call
};

enum class AccessKind : uint8_t {
  kNone,  // The address is named, but nothing there is read or written.
  kRead,
  kWrite,
  kUpdate,  // Both, in one step
};

// One access to memory by each thread that executes the instruction.
struct MemoryAccess {
  uint8_t operand = 0;  // The index of its address among the operands
  AccessKind kind = AccessKind::kNone;
  StateSpace space = StateSpace::kGeneric;
  // The number of bytes from the address on. It is 0 for kNone, and when the number is not known
  // before the instruction runs, as for the rows of a matrix, which are a stride apart.
  uint64_t bytes = 0;
};

// Where the number of bytes of an access comes from.
enum class Extent : uint8_t {
  kNone,
  kElements,   // The type, times the vector
  kImmediate,  // The immediate operand
  kBarrier,    // An mbarrier has eight.
  kTileRow,    // A row of a tile has sixteen.
  kMatrix,     // Rows a stride apart
};

struct InstructionRow {
  // The opcode, and the modifiers that follow it at once and are part of its name.
  std::string_view mnemonic;
  Family family;
  // One letter for each operand: d destination, s source, p predicate, i immediate, t target, l
  // list, and for addresses R read, W written, U updated, N named. A question mark follows an
  // operand that may be left out.
  std::string_view operands;
  // The further modifiers that it may have, as words and classes of words. They are checked only
  // where the instruction touches memory. The classes are <space>, <hint> of caches and scopes,
  // <order>, <vector>, <type>, <operation> of an atomic, and <shape> of a matrix.
  std::string_view modifiers = {};
  Extent extent = Extent::kNone;
  // Whether it rounds as `rn` does when it does not say how.
  bool rounds_to_nearest = false;
};

absl::Span<const InstructionRow> InstructionRows();

// Returns null for an instruction that is not in the table.
const InstructionRow* FindInstruction(const Instruction& instruction);

inline constexpr size_t kMostOperands = 8;

enum class Verdict : uint8_t {
  kKnown,
  kUnknown,        // The table has no such instruction, or none with such modifiers.
  kWrongOperands,  // The operands do not fit the row.
};

// What the table says of one instruction. It borrows strings of the instruction.
class Description {
 public:
  const InstructionRow& row() const { return *row_; }
  // The role of each operand.
  absl::Span<const Role> roles() const { return {roles_.data(), count_}; }
  // The accesses, in the order of their operands.
  absl::Span<const MemoryAccess> accesses() const { return {accesses_.data(), access_count_}; }

  // --- What the modifiers say, where the row has them.
  std::string_view type() const { return type_; }  // The last one; the type of an element in memory
  uint32_t vector() const { return vector_; }      // Elements
  bool ordered() const { return ordered_; }        // Volatile, relaxed or stronger
  std::string_view operation() const { return operation_; }  // "add"; empty where none is named

 private:
  friend Verdict Describe(const Instruction& instruction, Description* description);
  bool MatchOperands(const Instruction& instruction, std::string_view letters, size_t operand);
  bool ReadModifiers(absl::Span<const std::string> modifiers,
                     absl::Span<const std::string_view> words);
  void FindAccesses(const Instruction& instruction);

  const InstructionRow* row_ = nullptr;
  size_t count_ = 0;  // Number of operands
  std::array<Role, kMostOperands> roles_{};
  std::array<char, kMostOperands> letters_{};  // Taken from InstructionRow::operands
  std::array<MemoryAccess, 3> accesses_{};
  size_t access_count_ = 0;
  size_t space_count_ = 0;  // Number of spaces that are named
  std::string_view type_;
  std::string_view operation_;
  uint32_t vector_ = 1;
  bool ordered_ = false;
};

Verdict Describe(const Instruction& instruction, Description* description);

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_INSTRUCTION_SET_H_
