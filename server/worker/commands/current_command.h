// The command that a session's decoder has in hand, and how it ends.
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_CURRENT_COMMAND_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_CURRENT_COMMAND_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "proto/commands.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/task.h"
#include "server/worker/executors/task_engine.h"
#include "server/worker/order/completion.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

// A command ends in one of three ways: as a task of an executor, complete at
// once (RetireHere()), or refused.
class CurrentCommand {
 public:
  // All pointers are borrowed.
  CurrentCommand(Completion* completion, ReplySink* sink, SharedUsage* usage)
      : completion_(completion), sink_(sink), usage_(usage) {}

  // Sets the memory that holds the bodies of the next commands; null when there are no more. Tasks
  // with a tail keep it alive.
  void SetPayload(std::shared_ptr<const std::string> payload) RUNS_ON(decoder_thread) {
    payload_ = std::move(payload);
  }
  void Begin(uint64_t seq, CommandId id) RUNS_ON(decoder_thread);

  uint64_t seq() const RUNS_ON(decoder_thread) { return seq_; }
  CommandId id() const RUNS_ON(decoder_thread) { return id_; }
  bool refused() const RUNS_ON(decoder_thread) { return refused_; }

  // Makes a task of the command for an executor.
  template <typename Command>
  Task NewTask(const Command& command, std::string_view tail) const RUNS_ON(decoder_thread) {
    static_assert(FindCommand(CommandTraits<Command>::kId).executor != ExecutorKind::kDecode);
    Task task;
    task.seq = seq_;
    task.id = id_;
    task.command = command;
    if (!tail.empty()) task.payload = payload_;
    task.tail = tail;
    task.work = EngineWorkOf(task);
    return task;
  }

  // Completes the command without an executor.
  void RetireHere() RUNS_ON(decoder_thread) { ++retired_; }
  // Returns how many commands were completed here since the last call.
  uint64_t TakeRetired() RUNS_ON(decoder_thread) { return std::exchange(retired_, 0); }

  // Answers a round trip with an error, or reports a failed one-way command. After a sticky error
  // it answers with that error instead. `why` reaches the client with a failed one-way command.
  void Refuse(CudaResult result, std::string_view why = {}) RUNS_ON(decoder_thread);
  // Counts that a limit was met, and logs it once for each limit.
  void Meet(Limit limit, uint64_t most) RUNS_ON(decoder_thread);
  // Does what Meet() does, and refuses the command with kOutOfMemory and these words.
  void RefuseBeyond(Limit limit, uint64_t most) RUNS_ON(decoder_thread);

 private:
  Completion* const completion_;
  ReplySink* const sink_;
  SharedUsage* const usage_;
  std::shared_ptr<const std::string> payload_ ABSL_GUARDED_BY(decoder_thread);
  uint64_t seq_ ABSL_GUARDED_BY(decoder_thread) = 0;
  CommandId id_ ABSL_GUARDED_BY(decoder_thread){};
  bool refused_ ABSL_GUARDED_BY(decoder_thread) = false;
  uint64_t retired_ ABSL_GUARDED_BY(decoder_thread) = 0;
  std::array<bool, kLimitCount> said_limit_ ABSL_GUARDED_BY(decoder_thread){};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_CURRENT_COMMAND_H_
