// A session's journal as it lies in shared memory: what the session's next worker needs to go on.
//
// The server makes the journal, so that it outlives the worker and its size is bounded, and hands
// it to one worker after another. The server reads the head alone. The rest is between workers,
// each of which treats what the former one left as hostile.
//
// Layout: a page with JournalHead, `kJournalSlots` slots of 128 bytes, and `kJournalDataBytes` of
// data. The file is sparse: only what was written takes memory.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_JOURNAL_FILE_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_JOURNAL_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline {

inline constexpr size_t kJournalHeadBytes = 4096;
inline constexpr uint64_t kJournalSlotBytes = 128;
// Enough for as many objects as a session may have, and some settings of them.
inline constexpr uint64_t kJournalSlots = 3u << 19;
// Holds module images, names, and what was written to variables.
inline constexpr uint64_t kJournalDataBytes = (4ull << 30) + (256ull << 20);
inline constexpr uint64_t kJournalDataStart = kJournalHeadBytes + kJournalSlots * kJournalSlotBytes;
inline constexpr uint64_t kJournalBytes = kJournalDataStart + kJournalDataBytes;

// Reasons why a session cannot outlive its worker although nothing is in flight.
enum JournalFlag : uint32_t {
  // A sticky error ended the session.
  kJournalFaulted = 1,
  // Kernels may have written module variables, whose contents only the worker has.
  kJournalVariables = 2,
  // The journal had no room for something.
  kJournalIncomplete = 4,
  // Kernels may have taken memory of the device's heap (malloc), which only the worker has.
  kJournalHeap = 8,
  // There are arrays or textures, which end with the worker. The flag is cleared when there are
  // none.
  kJournalObjects = 16,
  // The session has several devices, and no next worker could place the variables where all their
  // drivers had them.
  kJournalDevices = 32,
};

// The head is written by the worker and read by the server.
struct JournalHead {
  // Every command up to this one is complete, and all its replies are in the ring.
  std::atomic<uint64_t> retired_seq{0};
  std::atomic<uint32_t> flags{0};
  // Slots from here on have never been used.
  std::atomic<uint32_t> slots_used{0};
  // This is no part of the journal, but the server must read it, and it must outlive workers too.
  SharedUsage usage;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(JournalHead) <= kJournalHeadBytes);

// The server's hold on a journal. Thread-safe after creation.
class JournalFile {
 public:
  // RESOURCE_EXHAUSTED when the system has no descriptors or memory left.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Create();
  // Makes the memory of an empty journal, to be filled with what another one held.
  static absl::StatusOr<UniqueFd> CreateMemory();
  // Takes over such memory. INVALID_ARGUMENT for memory of another size, RESOURCE_EXHAUSTED as
  // Create().
  static absl::StatusOr<std::unique_ptr<JournalFile>> Adopt(UniqueFd memory);
  ~JournalFile();
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // The descriptor for the worker. This object owns it.
  int fd() const { return fd_.get(); }
  uint64_t retired_seq() const { return head_->retired_seq.load(std::memory_order_acquire); }
  // How many commands the workers have completed, by their own count.
  uint64_t commands_complete() const {
    return head_->usage.commands_complete.load(std::memory_order_acquire);
  }
  SessionUsage usage() const { return ReadUsage(head_->usage); }
  uint32_t flags() const { return head_->flags.load(std::memory_order_acquire); }

 private:
  JournalFile(UniqueFd fd, JournalHead* head) : fd_(std::move(fd)), head_(head) {}

  const UniqueFd fd_;
  JournalHead* const head_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_JOURNAL_FILE_H_
