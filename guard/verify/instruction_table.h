// The rows of the table of instructions and the words that modify them. Only instructions.cc
// includes this. Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_INSTRUCTION_TABLE_H_
#define WARPLINE_GUARD_VERIFY_INSTRUCTION_TABLE_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "guard/verify/instructions.h"

namespace warpline::guard {

// Groups of modifiers. A word may belong to several.
enum Words : uint32_t {
  kSpaceWord = 1 << 0,      // global, shared, ...
  kOrderWord = 1 << 1,      // relaxed, cta, ...
  kCacheWord = 1 << 2,      // nc, L1::no_allocate, ...
  kVectorWord = 1 << 3,     // v2, v4, v8
  kTypeWord = 1 << 4,       // Types in memory
  kOperationWord = 1 << 5,  // Of atom and red
  kMatrixWord = 1 << 6,     // Of wmma.load and wmma.store
  kTileWord = 1 << 7,       // Of ldmatrix and stmatrix
  kMbarrierWord = 1 << 8,   // Of mbarrier
  kFenceWord = 1 << 9,      // Of membar and fence
  kBarrierWord = 1 << 10,   // Of barrier
  kCvtaWord = 1 << 11,      // Of cvta
  kIsspacepWord = 1 << 12,  // Of isspacep
  kBulkWord = 1 << 13,      // Of cp.async.bulk
  kWaitWord = 1 << 14,      // Of cp.async.bulk.wait_group
  // Any word that does not name memory, known or not.
  kAnyWord = 1u << 31,
};

struct Word {
  std::string_view word;
  uint32_t groups;
  Space space = Space::kGeneric;  // Of a kSpaceWord
  int64_t number = 0;             // Bytes of a kTypeWord, elements of a kVectorWord
};

// A set of spaces.
inline constexpr uint8_t SpaceBit(Space space) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(space));
}

struct Row {
  // The opcode, and the modifiers that follow it at once and are part of its name.
  std::string_view mnemonic;
  Rule rule;
  uint32_t words;  // The groups from which its further modifiers come
  uint8_t least;   // Number of operands
  uint8_t most;
  // Of instructions with addresses:
  uint8_t address = 0;  // Index of the first one; the second one of cp.async follows it
  uint8_t spaces = 0;   // SpaceBit() of each space that is allowed
  uint8_t bytes = 0;    // Of an access; 0 if the type says it
  bool writes = false;
  // Others: whether the first operand is written. (Of bar and barrier that depends.)
};

// Rows of one opcode stand together, those with longer mnemonics first.
absl::Span<const Row> Rows();
absl::Span<const Word> AllWords();

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_INSTRUCTION_TABLE_H_
