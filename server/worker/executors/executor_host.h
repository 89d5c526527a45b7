// The state that the executors of a session share with each other and with the parts above them.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_HOST_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_HOST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "server/device/device.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/worker/executors/cached_images.h"
#include "server/worker/executors/device_set.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/executor_inbox.h"
#include "server/worker/executors/kernel.h"
#include "server/worker/executors/library_calls.h"
#include "server/worker/executors/print_relay.h"
#include "server/worker/executors/staging_pool.h"
#include "server/worker/executors/task.h"
#include "server/worker/memory/memory_charger.h"
#include "server/worker/memory/neighbour_pointers.h"
#include "server/worker/memory/outside_memory.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

class Executor;

// Hears how the executors' commands end. Thread-safe.
class ExecutorReports {
 public:
  virtual ~ExecutorReports() = default;
  // The sticky error that ended the session, or kSuccess.
  virtual CudaResult fault() const = 0;
  // Reports a one-way command that failed; a sticky result ends the session.
  virtual void Fail(uint64_t seq, CommandId id, CudaResult result) = 0;
  // Reports that `count` more commands of `executor` are complete. Adds what the client is told of
  // it to `*batch`.
  virtual void OnRetired(Executor* executor, uint64_t count, std::string* batch) = 0;
  // Called after OnRetired(), once the batch is sent. Answers waits that several executors had to
  // pass, and reports what became true only by that.
  virtual void AfterRetired() = 0;
  // Called once an executor has finished (Executor::finished()).
  virtual void OnFinished() = 0;
};

// Hears of state that a next worker would have to make again, or could not. Thread-safe.
class StateObserver {
 public:
  virtual ~StateObserver() = default;
  // A record of an event with timing is complete.
  virtual void OnRecorded(const EventRecord& record) = 0;
  // Called when `task` has loaded its module with `load`, before anything of the module is found.
  // While a worker takes over, this puts the module's variables where they were, for which it may
  // load the module again.
  virtual CudaResult PlaceVariables(const Task& task,
                                    const std::function<CudaResult(device::ModuleId*)>& load) = 0;
  // Returns how much memory the variables of the module take that `task` is about to load.
  virtual uint64_t VariableBytes(const Task& task) = 0;
  // `task` has loaded its module from its image, of which VariableBytes() was asked before. Returns
  // Module::at_risk.
  virtual uint32_t OnModuleLoaded(const Task& task) = 0;
  // The module with this handle is about to be unloaded.
  virtual void OnModuleUnloading(uint64_t module) = 0;
  // A kernel may run from now on whose module has these flags as its Module::at_risk.
  virtual void OnAtRisk(uint32_t flags) = 0;
  // `task`, a GlobalFind or VariableFind, found its variable.
  virtual void OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) = 0;
  // Tells whether there is now anything, such as an array, that ends with this worker.
  virtual void OnLostWithWorker(bool any) = 0;
};

// All objects are borrowed, thread-safe, and live longer than the executors. None is null but for
// `pointers` and `gates`.
struct ExecutorHost {
  const DeviceSet* devices = nullptr;
  ExecutorReports* reports = nullptr;
  StateObserver* state = nullptr;
  MemoryCharger* charger = nullptr;
  OutsideMemory* outside = nullptr;
  LibraryBudget* libraries = nullptr;
  ReplySink* sink = nullptr;
  PrintRelay* prints = nullptr;
  StagingPool* staging = nullptr;
  LaunchGate* gate = nullptr;
  CachedImages* images = nullptr;
  ExecutorNaps* naps = nullptr;
  const NeighbourPointers* pointers = nullptr;  // Null for a session that is not guarded.
  // Whose turn it is on the devices' engines. Null where nothing is dispatched.
  const dispatch::SessionGates* gates = nullptr;
  // Called when work on the device does not end that is to end, with why in words. The session then
  // fails with kLaunchTimeout, if need be with its process. It does not wait. May be empty.
  std::function<void(const std::string& why)> end_work;
  LogBudget* log = nullptr;  // For lines of the kinds of session_log.h.
  // The decoder's thread may adopt an executor (executor.h): it polls between two payloads.
  bool adopts_executors = false;
  // Other sessions have the same hardware context.
  bool shares_device = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_HOST_H_
