// Which engine of the device a command keeps busy.
#ifndef WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
#define WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_

#include <cstdint>

#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/worker/lanes/task.h"

namespace warpline::worker {

struct EngineWork {
  Engine engine = Engine::kNothing;
  uint64_t bytes = 0;  // Of a copy between host and device.
};

// What the command asks of an engine that sessions share in turns. A copy between places of the
// device, a box or an array too, goes over the bus where one of them is host memory that the device
// reaches. Such copies within a graph, and what kernels read and write there, are the graph's and
// the kernels': computing.
EngineWork EngineWorkOf(CommandId id, const AnyCommand& command, uint64_t tail_bytes);

inline EngineWork EngineWorkOf(const Task& task) {
  return EngineWorkOf(task.id, task.command, task.tail.size());
}

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
