// Which engine of the device a command keeps busy.
#ifndef WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
#define WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_

#include <cstdint>

#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/worker/lanes/task.h"

namespace warpline::worker {

// A copy between places of the device goes over the bus where one of them is host memory that the
// device reaches.
Engine EngineOfCopy(const cmd::CopyOnDevice& copy);

struct EngineWork {
  Engine engine = Engine::kNothing;
  uint64_t bytes = 0;  // Of a copy between host and device.
};

// What the task asks of an engine that sessions share in turns.
EngineWork EngineWorkOf(const Task& task);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_TASK_ENGINE_H_
