// A page of reports in memory shared by two processes that do not trust each other: for each of
// some keys, the newest number that was reported for it.
//
// One process writes, and one reads, which may sleep until there is something new. A key that
// shares its place with another is pushed out by that one's next report, so the board is a short
// cut for what is told by other means as well. The memory is sealed, so that no access faults. Of
// what the other end may have written there, the writer believes that somebody sleeps for a number,
// and the reader that numbers are numbers.
//
// A report comes after others that travel elsewhere: it says after how many (`after`), counted
// since its writer began, and which writer that was (`generation`), so that the reader can tell
// whether it has seen those. Each entry is a sequence lock (Lameter, "Effective synchronization on
// Linux/NUMA systems", 2005): a version that is odd while the entry is written.
#ifndef WARPLINE_TRANSPORT_SHM_BOARD_H_
#define WARPLINE_TRANSPORT_SHM_BOARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace warpline {

struct BoardReport {
  uint64_t key;
  uint64_t number;
  uint64_t after;
  uint64_t generation;
};

// An entry as it is shared.
struct alignas(64) BoardEntry {
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> number;
  std::atomic<uint64_t> after;
  std::atomic<uint64_t> generation;
  std::atomic<uint64_t> wanted;  // A reader sleeps until there is such a number; 0 for none.
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t kBoardEntries = 64;
inline constexpr size_t kBoardBytes = kBoardEntries * sizeof(BoardEntry);
static_assert(kBoardBytes == 4096);

// RESOURCE_EXHAUSTED when the system has no memory or descriptors left. An empty board has reports
// of generation 0 only.
absl::StatusOr<UniqueFd> CreateBoard();

// The mapping of a board, without its descriptor.
class BoardMap {
 public:
  // INVALID_ARGUMENT when the descriptor is not that of a board.
  static absl::StatusOr<std::unique_ptr<BoardMap>> Map(int fd);
  ~BoardMap();
  BoardMap(const BoardMap&) = delete;
  BoardMap& operator=(const BoardMap&) = delete;

  // The only place of a key.
  BoardEntry& At(uint64_t key) const { return entries_[IndexOf(key)]; }
  static constexpr size_t IndexOf(uint64_t key) { return (key * 0x9e3779b97f4a7c15u) >> 58; }

 private:
  explicit BoardMap(BoardEntry* entries) : entries_(entries) {}

  BoardEntry* const entries_;
};

// The writing end. Thread-compatible.
class BoardWriter {
 public:
  // `generation` is above those of earlier writers of this board, none of which writes any more.
  static absl::StatusOr<std::unique_ptr<BoardWriter>> Attach(const UniqueFd& fd,
                                                             uint64_t generation);

  uint64_t generation() const { return generation_; }
  void Write(uint64_t key, uint64_t number, uint64_t after);
  // Whether somebody sleeps until there is a report about `key`.
  bool Awaited(uint64_t key) const { return map_->At(key).wanted.load() != 0; }

 private:
  BoardWriter(std::unique_ptr<BoardMap> map, uint64_t generation)
      : map_(std::move(map)), generation_(generation) {
    versions_.fill(generation << 32);
  }

  const std::unique_ptr<BoardMap> map_;
  const uint64_t generation_;
  std::array<uint64_t, kBoardEntries> versions_;  // Even, and of this writer alone.
};

// The reading end. Thread-safe.
class BoardReader {
 public:
  static absl::StatusOr<std::unique_ptr<BoardReader>> Attach(const UniqueFd& fd);

  // The newest report about `key`; false when there is none, or it is being written.
  bool Read(uint64_t key, BoardReport* report) const;
  // Sleeps until there is a report of at least `number` where those about `key` are, or `done` says
  // that there is no need to, or `timeout` has passed; may return early.
  void Sleep(uint64_t key, uint64_t number, absl::Duration timeout,
             absl::FunctionRef<bool()> done) const;

 private:
  explicit BoardReader(std::unique_ptr<BoardMap> map) : map_(std::move(map)) {}

  const std::unique_ptr<BoardMap> map_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_BOARD_H_
