// What guarded kernels tell the server: what they print, and why a thread ended early.
//
// Records lie in the arena of the session, at the address that kRecordsWord holds; where that is 0
// none are written. The server empties the ring while no kernel of the session runs. Everything in
// it is the tenant's word: believe no address and no number.
#ifndef WARPLINE_GUARD_RECORDS_H_
#define WARPLINE_GUARD_RECORDS_H_

#include <cstddef>
#include <cstdint>

namespace warpline::guard {

enum class RecordKind : uint32_t {
  kNone = 0,
  kPrint = 1,
  kAssert = 2,
  kTrap = 3,  // `line` is that of the PTX.
  // An access that is checked (rewrite/checks.h). `line` is the number of its site, `text` its
  // address, `file` its bytes.
  kOutOfBounds = 4,
  kMisaligned = 5,
  kOutOfShared = 6,
  // A call of a function that had called itself as often as it may (rewrite/recursion.h). `line` is
  // that of the PTX, `text` how often that is.
  kTooDeep = 7,
};

// At the start of the ring. Records follow it at once.
struct RecordsHeader {
  uint32_t taken = 0;  // How many records were begun, also those for which there was no room
  uint32_t room = 0;   // For so many records
  // The line of the PTX to which threads came without the rest of their warp, where all have to
  // come together, and ended; 0 if none did. One of several.
  uint32_t parted_line = 0;
  uint8_t reserved[52] = {};
};

struct Record {
  uint32_t kind = 0;  // A RecordKind. Written last.
  uint32_t line = 0;
  uint64_t text = 0;      // The format, or the assertion: the address of a string
  uint64_t file = 0;      // Of an assertion; likewise
  uint64_t function = 0;  // Of an assertion; likewise
  uint32_t block[3] = {};
  uint32_t thread[3] = {};
  uint64_t reserved = 0;
  uint64_t arguments[32] = {};  // What a format takes, as printf's arguments lie in memory
};

// Guarded kernels write there.
inline constexpr int64_t kPartedLineOffset = 8;

static_assert(offsetof(RecordsHeader, parted_line) == kPartedLineOffset);
static_assert(sizeof(RecordsHeader) == 64);
static_assert(sizeof(Record) == 320);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_RECORDS_H_
