// Which engine of the device a command keeps busy.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_TASK_ENGINE_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_TASK_ENGINE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"
#include "server/worker/executors/task.h"

namespace warpline::worker {

// One for each value of Engine.
inline constexpr size_t kEngineCount = 4;
using EngineCounts = std::array<uint64_t, kEngineCount>;

// What the task asks of an engine that sessions share in turns; copies of boxes and arrays count as
// others do. Copies within a graph, and what kernels read and write in host memory, are the graph's
// and the kernels': computing.
EngineWork EngineWorkOf(const Task& task);

// Returns what dispatch is told of the task's launch, without its expected time; zeros for a task
// that launches no kernel. REQUIRES: the task's kernel has been looked for.
dispatch::KernelFacts KernelFactsOf(const Task& task);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_TASK_ENGINE_H_
