#include "transport/shm_board.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "common/sealed_memory.h"

namespace warpline {

namespace {

// The half of the version that changes.
uint32_t* FutexWord(BoardEntry* entry) { return reinterpret_cast<uint32_t*>(&entry->version); }

}  // namespace

absl::StatusOr<UniqueFd> CreateBoard() { return NewSealedMemory("warpline-board", kBoardBytes); }

absl::StatusOr<std::unique_ptr<BoardMap>> BoardMap::Map(int fd) {
  const absl::StatusOr<uint64_t> bytes = SealedBytes(fd);
  if (!bytes.ok() || *bytes != kBoardBytes) {
    return absl::InvalidArgumentError("not the memory of a board");
  }
  void* const entries = mmap(nullptr, kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (entries == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  return std::unique_ptr<BoardMap>(new BoardMap(static_cast<BoardEntry*>(entries)));
}

BoardMap::~BoardMap() { munmap(entries_, kBoardBytes); }

absl::StatusOr<std::unique_ptr<BoardWriter>> BoardWriter::Attach(const UniqueFd& fd,
                                                                 uint64_t generation) {
  auto map = BoardMap::Map(fd.get());
  if (!map.ok()) return map.status();
  return std::unique_ptr<BoardWriter>(new BoardWriter(*std::move(map), generation));
}

void BoardWriter::Write(uint64_t key, uint64_t number, uint64_t after) {
  BoardEntry& entry = map_->At(key);
  uint64_t& version = versions_[BoardMap::IndexOf(key)];
  // Each of these releases the odd version, and each load of them acquires it, so that a reader
  // which saw any of them does not see the former version afterwards. ThreadSanitizer knows no
  // fences.
  entry.version.store(version + 1, std::memory_order_relaxed);
  entry.key.store(key, std::memory_order_release);
  entry.number.store(number, std::memory_order_release);
  entry.after.store(after, std::memory_order_release);
  entry.generation.store(generation_, std::memory_order_release);
  version += 2;
  // One side stores the version and then loads what is wanted, the other the reverse: either the
  // reader sees the report, or it is woken.
  entry.version.store(version);
  const uint64_t wanted = entry.wanted.load();
  if (wanted != 0 && wanted <= number && entry.wanted.exchange(0) != 0) {
    // Who wants a later report may have seen what an earlier wish was, and not that it is gone: it
    // does not fall asleep over this, and wishes again.
    version += 2;
    entry.version.store(version);
    syscall(SYS_futex, FutexWord(&entry), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

absl::StatusOr<std::unique_ptr<BoardReader>> BoardReader::Attach(const UniqueFd& fd) {
  auto map = BoardMap::Map(fd.get());
  if (!map.ok()) return map.status();
  return std::unique_ptr<BoardReader>(new BoardReader(*std::move(map)));
}

bool BoardReader::Read(uint64_t key, BoardReport* report) const {
  const BoardEntry& entry = map_->At(key);
  const uint64_t version = entry.version.load(std::memory_order_acquire);
  if (version % 2 != 0) return false;
  report->key = entry.key.load(std::memory_order_acquire);
  report->number = entry.number.load(std::memory_order_acquire);
  report->after = entry.after.load(std::memory_order_acquire);
  report->generation = entry.generation.load(std::memory_order_acquire);
  return entry.version.load(std::memory_order_relaxed) == version && report->key == key &&
         report->generation != 0;
}

void BoardReader::Sleep(uint64_t key, uint64_t number, absl::Duration timeout,
                        absl::FunctionRef<bool()> done) const {
  BoardEntry& entry = map_->At(key);
  const auto seen = static_cast<uint32_t>(entry.version.load());
  // Of several readers the one that wants the least; the others say again what they want.
  uint64_t wanted = entry.wanted.load();
  while ((wanted == 0 || wanted > number) && !entry.wanted.compare_exchange_weak(wanted, number)) {
  }
  if (done()) return;
  const timespec limit = absl::ToTimespec(timeout);
  syscall(SYS_futex, FutexWord(&entry), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

}  // namespace warpline
