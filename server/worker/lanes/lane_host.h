// What the lanes of a session share with each other and with the parts above them.
#ifndef WARPLINE_SERVER_WORKER_LANES_LANE_HOST_H_
#define WARPLINE_SERVER_WORKER_LANES_LANE_HOST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "server/device/device.h"
#include "server/hostlink/dispatch_gate/lane_turns.h"
#include "server/worker/lanes/cached_images.h"
#include "server/worker/lanes/device_set.h"
#include "server/worker/lanes/event.h"
#include "server/worker/lanes/kernel.h"
#include "server/worker/lanes/lane_inbox.h"
#include "server/worker/lanes/print_relay.h"
#include "server/worker/lanes/staging_pool.h"
#include "server/worker/lanes/task.h"
#include "server/worker/memory/memory_charger.h"
#include "server/worker/memory/neighbour_pointers.h"
#include "server/worker/memory/outside_memory.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

class Lane;

// Hears how the lanes' commands end. Thread-safe.
class LaneReports {
 public:
  virtual ~LaneReports() = default;
  // The sticky error that ended the session, or kSuccess.
  virtual CudaResult fault() const = 0;
  // Reports a one-way command that failed; a sticky result ends the session.
  virtual void Fail(uint64_t seq, CommandId id, CudaResult result) = 0;
  // Reports that `count` more commands of `lane` are complete. Adds what the client is told of it
  // to `*batch`.
  virtual void OnRetired(Lane* lane, uint64_t count, std::string* batch) = 0;
  // Called after OnRetired(), once the batch is sent. Answers waits that several lanes had to pass,
  // and reports what became true only by that.
  virtual void AfterRetired() = 0;
  // Called once a lane has finished (Lane::finished()).
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

// All objects are borrowed, thread-safe, and live longer than the lanes. None is null but for
// `pointers` and `gates`.
struct LaneHost {
  const DeviceSet* devices = nullptr;
  LaneReports* reports = nullptr;
  StateObserver* state = nullptr;
  MemoryCharger* charger = nullptr;
  OutsideMemory* outside = nullptr;
  ReplySink* sink = nullptr;
  PrintRelay* prints = nullptr;
  StagingPool* staging = nullptr;
  LaunchGate* gate = nullptr;
  CachedImages* images = nullptr;
  LaneNaps* naps = nullptr;
  const NeighbourPointers* pointers = nullptr;  // Null for a session that is not guarded.
  // Whose turn it is on the devices' engines. Null where nothing is dispatched.
  const dispatch::SessionGates* gates = nullptr;
  LogBudget* log = nullptr;  // For lines of the kinds of session_log.h.
  // The decoder's thread may adopt a lane (lane.h): it polls between two payloads.
  bool adopts_lanes = false;
  // Other sessions have the same hardware context.
  bool shares_device = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LANE_HOST_H_
