// What the families of commands have in common.
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_COMMAND_HANDLER_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_COMMAND_HANDLER_H_

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "common/progress.h"
#include "proto/commands.h"
#include "server/worker/commands/current_command.h"
#include "server/worker/commands/object_tables.h"
#include "server/worker/commands/vetted_programs.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/executors/cached_images.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/device_set.h"
#include "server/worker/executors/session_limits.h"
#include "server/worker/memory/host_memory.h"
#include "server/worker/memory/virtual_memory.h"
#include "server/worker/order/completion.h"
#include "server/worker/order/stream_order.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

// What the families work on. All of it is borrowed.
struct CommandParts {
  CurrentCommand* current = nullptr;
  ObjectTables* tables = nullptr;
  StreamOrder* order = nullptr;
  Completion* completion = nullptr;
  Progress* progress = nullptr;
  ReplySink* sink = nullptr;
  const DeviceSet* devices = nullptr;
  const SessionLimits* limits = nullptr;
  CachedImages* images = nullptr;
  LogBudget* log = nullptr;      // For lines of the kinds of session_log.h.
  Recorder* recorder = nullptr;  // Null without a journal.
  HostMemory* host_memory = nullptr;
  VirtualMemory* memory = nullptr;  // Null when there are no handles to be mapped.
  uint64_t arena_base = 0;
  uint64_t arena_bytes = 0;
  const std::atomic<bool>* ending = nullptr;  // The session is over: nothing is decoded any more.
  const VettedPrograms* vetted = nullptr;     // Null where the session may load what it brings.
};

// The number of handles that a session has, in the tables and elsewhere.
uint64_t CountHandles(const CommandParts& parts) RUNS_ON(decoder_thread);

// The base class of each family. A family's On() for a command looks up what the command names,
// refuses what is wrong, and ends the command in one of the ways of CurrentCommand.
class CommandHandler {
 public:
  explicit CommandHandler(const CommandParts* parts) : parts_(*parts) {}

 protected:
  ObjectTables& tables() { return *parts_.tables; }
  StreamOrder& order() { return *parts_.order; }
  Stream* FindStream(uint64_t handle) RUNS_ON(decoder_thread) { return parts_.order->Find(handle); }
  bool HasDeviceOf(uint64_t handle) const { return parts_.devices->HasDeviceOf(handle); }

  uint64_t seq() const RUNS_ON(decoder_thread) { return parts_.current->seq(); }
  void Refuse(CudaResult result) RUNS_ON(decoder_thread) { parts_.current->Refuse(result); }
  void RetireHere() RUNS_ON(decoder_thread) { parts_.current->RetireHere(); }
  // Returns whether the session may have another handle; refuses the command when not.
  bool HandlesLeft() RUNS_ON(decoder_thread);

  template <typename Command>
  Task NewTask(const Command& command, std::string_view tail) const RUNS_ON(decoder_thread) {
    return parts_.current->NewTask(command, tail);
  }
  // Sends a command to its stream. Refuses it and returns null for a handle that is no stream's.
  template <typename Command>
  Stream* ToStream(const Command& command, std::string_view tail) RUNS_ON(decoder_thread) {
    Stream* const stream = FindStream(command.stream);
    if (stream == nullptr) {
      Refuse(CudaResult::kInvalidHandle);
    } else {
      order().ToStream<Command>(stream, NewTask(command, tail));
    }
    return stream;
  }
  // Sends a command to its stream when it also sends data to the client.
  template <typename Command>
  void ToStreamForData(const Command& command, std::string_view tail) RUNS_ON(decoder_thread) {
    if (Stream* const stream = ToStream(command, tail)) order().SendsData(stream);
  }

  const CommandParts& parts_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_COMMAND_HANDLER_H_
