// Which engine of the device a command keeps busy.
#ifndef WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
#define WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_

#include <cstdint>

#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/worker/lanes/task.h"

namespace warpline::worker {

// A copy between two addresses goes over the bus where one of them is host memory that the device
// reaches; `otherwise` for one that stays on the device.
Engine EngineBetween(uint64_t dst, uint64_t src, Engine otherwise);

struct EngineWork {
  Engine engine = Engine::kNothing;
  uint64_t bytes = 0;  // Of a copy between host and device.
};

// What the task asks of an engine that sessions share in turns; copies of boxes and arrays count as
// others do. Copies within a graph, and what kernels read and write in host memory, are the graph's
// and the kernels': computing.
EngineWork EngineWorkOf(const Task& task);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
