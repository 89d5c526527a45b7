// One command, bound to the objects that it names, on its way through an executor.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_TASK_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_TASK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/device/device.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/image.h"
#include "server/worker/executors/kernel.h"

namespace warpline::worker {

class Executor;
struct Frame;
struct Graph;
struct Partition;

// Device code that is being linked. All members that are not the decoder's belong to the linker
// executor.
struct Link {
  uint32_t device = 0;  // Constant.
  // Sum of what was added.
  uint64_t image_bytes ABSL_GUARDED_BY(decoder_thread) = 0;
  bool created = false;
  device::LinkId id{};
  device::JitLog log;  // Everything that was said so far.
  std::string code;    // Set once it is complete.
};

// An array, a mipmapped array, or a level or plane of one. Threads read it by the rule of Module.
struct Array {
  uint64_t ticket = 0;
  uint32_t device = 0;
  CudaResult result = CudaResult::kNotReady;
  device::ArrayId id{};
  device::ArrayShape shape;
  std::shared_ptr<Array> whole;  // Set for a part, which ends with its whole.
  uint64_t charged_bytes = 0;    // Control executor only.
};

// Says that executor `executor` must have issued its task `ticket` first.
struct Prerequisite {
  std::shared_ptr<Executor> executor;
  uint64_t ticket;
  bool of_event = false;  // The task waits for an event that was recorded there.
};

// A HostCall under way. The decoder sets `done` for good, and the executor reads it.
struct HostWait {
  bool announced = false;  // Executor's thread only: the client has been told, or is being told.
  std::atomic<bool> done{false};
};

// Whether the client waits for an answer to such a command.
inline bool Answers(CommandId id) { return FindCommand(id).effect == Effect::kRoundTrip; }

struct EngineWork {
  Engine engine = Engine::kNothing;
  uint64_t bytes = 0;  // Of a copy between host and device.
};

// A task travels from the decoder to an executor, and is only moved.
struct Task {
  uint64_t seq = 0;
  uint64_t ticket = 0;  // Its place in its executor, from 1; set by the executor.
  CommandId id{};
  AnyCommand command;
  EngineWork work;  // What it asks of an engine that sessions share in turns (task_engine.h).
  // The objects that the command names, by the table's rules.
  std::shared_ptr<Kernel> kernel;
  // The kernel that a KernelSetAttribute changes into `kernel`.
  std::shared_ptr<Kernel> former_kernel;
  std::shared_ptr<Module> module;
  std::shared_ptr<EventRecord> event;
  std::shared_ptr<EventRecord> second_event;
  std::shared_ptr<Image> image;
  std::shared_ptr<HostWait> host;
  std::shared_ptr<Link> link;
  std::shared_ptr<Array> array;
  std::shared_ptr<Array> second_array;
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Frame> frame;
  std::shared_ptr<Partition> partition;
  // The latest StreamBarriers of other streams, for which the stream waits before the command.
  std::vector<std::shared_ptr<EventRecord>> barriers;
  absl::InlinedVector<Prerequisite, 1> after;
  // The same, but complete, and not issued alone.
  std::vector<Prerequisite> complete;
  // Work of other executors that the command comes after and that has data for the client: from
  // here on, nothing may be reported as complete before that data has been sent.
  std::vector<Prerequisite> data;
  // The tail lies in the payload, which stays alive as long as one of its tasks does.
  std::shared_ptr<const std::string> payload;
  std::string_view tail;
};

// The module of a GlobalFind or VariableFind; 0 for any other task.
inline uint64_t FoundIn(const Task& task) {
  if (const auto* const any = std::get_if<cmd::VariableFind>(&task.command)) return any->module;
  const auto* const plain = std::get_if<cmd::GlobalFind>(&task.command);
  return plain == nullptr ? 0 : plain->module;
}

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_TASK_H_
