// Reads a session's commands: checks their frames, their numbers, the right that each needs, and
// whether the journal has room for it. What a command then means is up to its family
// (commands/families.h).
//
// Everything that arrives is hostile until it has been checked, partly by others: lengths by the
// wire reader, and numbering, handles and limits here and in the families. What has been checked
// lies in this process's own memory, which the client cannot write.
#ifndef WARPLINE_SERVER_WORKER_SESSION_DECODER_H_
#define WARPLINE_SERVER_WORKER_SESSION_DECODER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lease/rights.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/worker/commands/command_handler.h"
#include "server/worker/commands/families.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {

class Decoder {
 public:
  // `parts` and `usage` are borrowed. Commands that need a right which `rights` lack are refused
  // with CUDA_ERROR_NOT_PERMITTED.
  Decoder(const CommandParts* parts, SharedUsage* usage, Rights rights);

  // Takes one kCommands payload. INVALID_ARGUMENT when it breaks the protocol; the session cannot
  // go on then. Waits while more is queued than the limits allow.
  absl::Status Decode(std::string payload) RUNS_ON(decoder_thread);

  // Runs an entry of the journal as a command, when the session is taken over from another worker,
  // which had accepted it.
  void Replay(JournalEntry entry) RUNS_ON(decoder_thread);
  // Hands everything to the executors and waits until it is complete, or the session is over.
  void Finish() RUNS_ON(decoder_thread);
  // Lets commands go on after number `seq`.
  void ResumeAfter(uint64_t seq) RUNS_ON(decoder_thread);
  // Publishes how much the session holds, and how many commands it was given.
  void PublishUsage() RUNS_ON(decoder_thread);

 private:
  bool ending() const { return parts_.ending->load(std::memory_order_seq_cst); }
  bool TooMuchQueued(uint64_t most_bytes) const RUNS_ON(decoder_thread);
  // Waits while too much is queued, or more than the host's memory is given for.
  void AwaitRoom() RUNS_ON(decoder_thread);
  // Makes the payload that of the current commands; it counts as queued until the last task drops
  // it.
  std::string_view TakePayload(std::string payload) RUNS_ON(decoder_thread);
  // Returns whether the session's rights allow the current command; refuses it when not.
  bool Permitted() RUNS_ON(decoder_thread);
  // Returns whether the journal has room to note it; refuses it when not.
  bool FitsInJournal(std::string_view body) RUNS_ON(decoder_thread);
  void Execute(std::string_view body) RUNS_ON(decoder_thread);

  const CommandParts& parts_;
  SharedUsage* const usage_;
  const Rights rights_;
  CommandFamilies families_ ABSL_GUARDED_BY(decoder_thread);
  // The rights whose absence has been logged.
  Rights said_missing_ ABSL_GUARDED_BY(decoder_thread) = 0;
  uint64_t next_seq_ ABSL_GUARDED_BY(decoder_thread) = 1;
  std::atomic<uint64_t> queued_bytes_{0};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_SESSION_DECODER_H_
