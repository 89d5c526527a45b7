// What a session's next worker needs to go on where this one ended: for each object that still
// exists, the commands that created or set it. Which commands those are is a column of
// proto/calls.toml.
//
// Entries are copied before they are used, and a worker that finds a journal trusts nothing in it:
// the commands go through the same checks as those of a client. An entry counts once its number is
// stored, which happens last, so that a worker may die at any time.
//
//   auto journal = Journal::Open(std::move(fd));  // The file that the server made.
//   if (!journal.ok()) return journal.status();
//   (*journal)->ForEachOf(wanted, [&](JournalEntry entry) { decoder.Replay(std::move(entry)); });
//   if (!(*journal)->Note(id, body)) ...          // There is no room: refuse the command.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_JOURNAL_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_JOURNAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/commands.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::worker {

// One entry, copied out of the journal.
struct JournalEntry {
  CommandId id{};
  std::string body;  // Fields and tail.
  // What was noted beside the command; 0 for nothing.
  int64_t value = 0;
};

// Thread-safe, except for Open().
class Journal {
 public:
  // Maps the journal and takes over what is in it. INVALID_ARGUMENT when it is no journal, or when
  // an entry is no command, leaves the journal or overlaps another.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(UniqueFd fd);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Calls replay(entry) for the entries of those commands for which wanted(id) returns true, in the
  // order in which they were made. The others are not copied, because images are large.
  template <typename Wanted, typename Replay>
  void ForEachOf(Wanted wanted, Replay replay) {
    for (const uint32_t slot : InOrder()) {
      JournalEntry entry;
      if (wanted(CommandAt(slot)) && Read(slot, &entry)) replay(std::move(entry));
    }
  }

  // Whether a command with `bytes` of fields and tail could be noted now.
  bool HasRoom(uint64_t bytes);
  // The memory that it keeps of the system's: what entries take, and what was theirs and is not
  // given back.
  uint64_t bytes();
  // Notes an accepted command by its rule. Returns false when there is no room.
  bool Note(CommandId id, std::string_view body);
  // Forgets an object, its settings, and what belongs to it.
  void Forget(JournalKind kind, uint64_t handle);
  // Forgets what NoteAs() noted under the keys [key, key + count).
  void ForgetKeys(uint64_t key, uint64_t count);
  // Notes a number beside the command that created an object. When there are two calls for one
  // object, the one with the larger `order` holds.
  void SetValue(JournalKind kind, uint64_t handle, uint64_t order, int64_t value);
  // Notes a command under a key of the caller's choice, and replaces what had that key.
  bool NoteAs(CommandId id, uint64_t key, uint64_t subkey, std::string_view body, int64_t value);

  SharedUsage* usage() { return &head_->usage; }
  void SetFlags(uint32_t flags) { head_->flags.fetch_or(flags, std::memory_order_release); }
  void ClearFlags(uint32_t flags) { head_->flags.fetch_and(~flags, std::memory_order_release); }
  // Sets JournalHead::retired_seq, which never goes back.
  void PublishRetired(uint64_t seq);

  size_t entries();

 private:
  struct Slot;
  // Kind, handle, command (0 for what created the object), attribute. All that concerns one object
  // lies together.
  using Key = std::tuple<uint32_t, uint64_t, uint32_t, uint64_t>;
  // The kind and handle of an object, then those of one that belongs to it.
  using Link = std::tuple<uint32_t, uint64_t, uint32_t, uint64_t>;
  struct Held {
    uint32_t slot = 0;
    uint64_t value_order = 0;
  };

  Journal(UniqueFd fd, char* map);
  Slot* At(uint32_t slot) const;
  absl::Status Adopt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<uint32_t> InOrder();
  // The command that the slot names, which may be none that exists.
  CommandId CommandAt(uint32_t slot) const;
  bool Read(uint32_t index, JournalEntry* entry);
  bool Add(const Key& key, uint64_t parent, CommandId id, std::string_view body, int64_t value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddLink(const Key& key, uint64_t parent, CommandId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetLocked(JournalKind kind, uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds the command, and then erases what had its key.
  bool Replace(const Key& key, CommandId id, std::string_view body, int64_t value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakeSpace(uint64_t bytes, uint64_t* offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveSpace(uint64_t offset, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes that this part of the data is written.
  void Touch(uint64_t offset, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the pieces that lie whole in this part back to the system.
  void Punch(uint64_t offset, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const UniqueFd fd_;
  char* const map_;
  JournalHead* const head_;

  Mutex mu_;
  uint64_t order_ ABSL_GUARDED_BY(mu_) = 0;  // The number of the latest entry.
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> free_space_ ABSL_GUARDED_BY(mu_);  // Offset -> bytes.
  // The value is a list because the parts of an image have one key.
  std::map<Key, std::vector<Held>> held_ ABSL_GUARDED_BY(mu_);
  std::set<Link> children_ ABSL_GUARDED_BY(mu_);
  size_t entries_ ABSL_GUARDED_BY(mu_) = 0;
  // The pieces of the data that the system has memory for, and how many they are.
  std::vector<bool> touched_ ABSL_GUARDED_BY(mu_);
  uint64_t touched_pieces_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_JOURNAL_H_
