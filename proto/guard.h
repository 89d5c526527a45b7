// Sessions whose kernels are guarded (guard/): what client and worker agree on.
#ifndef WARPLINE_PROTO_GUARD_H_
#define WARPLINE_PROTO_GUARD_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "proto/frames.h"

namespace warpline {

// As numbered in Hello.guard.
enum class GuardMode : uint32_t {
  kOff = 0,
  kFence = 1,  // Kernels reach nothing outside the guard's window.
  // Kernels also do not fault, end when they are to, and read nothing that other kernels left in
  // shared memory.
  kHardened = 2,
  kReport = 3,  // As kFence, and a thread with an access outside of all allocations ends.
};

inline constexpr std::string_view kGuardModes[] = {"off", "fence", "hardened", "report"};

constexpr std::optional<GuardMode> ParseGuardMode(std::string_view name) {
  for (uint32_t mode = 0; mode < std::size(kGuardModes); ++mode) {
    if (name == kGuardModes[mode]) return static_cast<GuardMode>(mode);
  }
  return std::nullopt;
}

// "off, fence, hardened, report", for messages.
std::string GuardModeChoices();

// What guarded kernels may reach: 2^bits bytes at a multiple of that.
struct GuardWindow {
  uint64_t base = 0;
  int bits = 0;
  bool host_memory = false;  // Mapped host memory lies in it.
};

// The least arena that there is, and the one whose fence takes no instruction for its mask.
inline constexpr uint64_t kNarrowArenaBytes = uint64_t{1} << 32;

// The window of a session of a process of its own. It also holds the range in which host memory is
// mapped, but for the narrow arena, whose window it is itself.
constexpr GuardWindow GuardWindowOf(uint64_t arena_base, uint64_t arena_bytes) {
  int bits = 32;
  if (arena_bytes == kNarrowArenaBytes) return {arena_base, bits, false};
  const auto whole = [&](uint64_t address, uint64_t bytes) {
    return (address >> bits) == (arena_base >> bits) &&
           ((address + bytes - 1) >> bits) == (arena_base >> bits);
  };
  while (!whole(arena_base, arena_bytes) || !whole(kHostArenaBase, kHostArenaBytes)) ++bits;
  return {arena_base >> bits << bits, bits, true};
}

// The window of a session that shares its context with others: its arena and nothing else.
constexpr GuardWindow ArenaWindow(uint64_t arena_base, uint64_t arena_bytes) {
  int bits = 32;
  while (bits < 63 && (uint64_t{1} << bits) < arena_bytes) ++bits;
  return {arena_base, bits, false};
}

// The end of each device's part of a guarded session's arena, in which the worker puts the
// variables of modules; the client has the rest.
constexpr uint64_t ModuleRoomBytes(uint64_t part_bytes) { return part_bytes / 16; }

// Where kernels of GuardMode::kReport look up whether an address is one that they may use: tables
// at the start of a device's room for modules. The client writes the first, of what it has
// allocated, while no kernel runs; the worker writes the second, of the modules' variables.
struct CheckedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
struct CheckedRangesHeader {
  uint64_t count = 0;  // Ranges follow at once, in the order of their addresses.
  uint64_t reserved = 0;
};
inline constexpr uint64_t kCheckedTableBytes = uint64_t{1} << 20;
inline constexpr uint64_t kCheckedTables = 2;
// There are too many ranges: every address is one that kernels may use, as with any such number.
inline constexpr uint64_t kAllAddresses = ~uint64_t{0};
inline constexpr uint64_t kMostCheckedRanges =
    (kCheckedTableBytes - sizeof(CheckedRangesHeader)) / sizeof(CheckedRange);

constexpr uint64_t CheckedTables(uint64_t part_base, uint64_t part_bytes) {
  return part_base + part_bytes - ModuleRoomBytes(part_bytes);
}

// A table as it lies in memory, of ranges in the order of their addresses.
std::string CheckedTable(absl::Span<const CheckedRange> ranges);

}  // namespace warpline

#endif  // WARPLINE_PROTO_GUARD_H_
