// Keeps a session's journal: notes the commands that were accepted, and what can be made again of
// module variables.
//
// Variables lie outside the arena and die with the worker. What the host wrote to them is noted.
// What kernels may have written is not known here, so the session then cannot outlive its worker
// unannounced (kJournalVariables); before a planned replacement VariableCarrier copies it out.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_RECORDER_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "proto/commands.h"
#include "proto/memory_span.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/task.h"
#include "server/worker/memory/host_memory.h"

namespace warpline::worker {

// Thread-safe, except for what runs on the decoder's thread.
class Recorder {
 public:
  // `journal` is borrowed. The arena is the part of it that outlives the worker. Addresses outside
  // are taken for those of variables.
  Recorder(Journal* journal, uint64_t arena_base, uint64_t arena_bytes)
      : journal_(journal), arena_base_(arena_base), arena_bytes_(arena_bytes) {}

  Journal* journal() { return journal_; }
  // Charges what the journal takes to `memory` (borrowed), which counts as no room when it is not
  // given.
  void UseHostMemory(HostMemory* memory) RUNS_ON(decoder_thread) { host_memory_ = memory; }

  // Whether a command can be noted. When it cannot, because the journal is full or the host's
  // memory is not given, it must be refused.
  bool HasRoom(CommandId id, std::string_view body) RUNS_ON(decoder_thread);
  // Call this after a command was accepted.
  void Note(CommandId id, std::string_view body) RUNS_ON(decoder_thread);
  // Call this after a command was refused.
  void Refused(CommandId id, std::string_view body) RUNS_ON(decoder_thread);

  void OnRecorded(const EventRecord& record);
  void OnAtRisk(uint32_t flags) { Flag(flags); }
  void OnVariableFound(const Task& task, uint64_t address, uint64_t bytes);
  // Notes a variable that the client did not ask for.
  void NoteVariable(uint64_t module, std::string_view name, uint64_t address, uint64_t bytes);
  void OnFault() { Flag(kJournalFaulted); }
  void OnSeveralDevices() { Flag(kJournalDevices); }
  // `any` tells whether there are any arrays or textures.
  void OnLostWithWorker(bool any) {
    any ? journal_->SetFlags(kJournalObjects) : journal_->ClearFlags(kJournalObjects);
  }

  // During a replay nothing is noted anew, and variables must come to lie where they were.
  void StartReplay() { replaying_.store(true); }
  bool replaying() const { return replaying_.load(std::memory_order_relaxed); }
  void Expect(const JournalEntry& entry);
  // The variables of `module` that Expect() was told of, and where they must lie.
  std::vector<std::pair<std::string, uint64_t>> ExpectedOf(uint64_t module);
  // Returns false when a variable has moved.
  bool EndReplay();

 private:
  struct Variable {
    uint64_t bytes = 0;
    uint64_t module = 0;
  };

  void Flag(uint32_t flags);
  // Whether the journal may take so much more, and a slot.
  bool MayGrow(uint64_t bytes) RUNS_ON(decoder_thread);
  bool MayBeOfVariables(const MemorySpan& span) const;
  void NoteWrite(CommandId id, std::string_view body, const MemorySpan& span)
      RUNS_ON(decoder_thread);
  void ForgetVariables(uint64_t module);

  Journal* const journal_;
  const uint64_t arena_base_;
  const uint64_t arena_bytes_;
  HostMemory* host_memory_ ABSL_GUARDED_BY(decoder_thread) = nullptr;
  std::atomic<bool> replaying_{false};
  std::atomic<uint32_t> flags_{0};

  Mutex mu_;
  std::map<uint64_t, Variable> variables_ ABSL_GUARDED_BY(mu_);  // By address.
  // Where the former worker had them, by the module's handle and the name.
  std::map<std::pair<uint64_t, std::string>, uint64_t> expected_ ABSL_GUARDED_BY(mu_);
  bool moved_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_RECORDER_H_
