// Keeps what a session's next worker needs to know of its modules: their variables, and what
// kernels may have written to them.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_CONTINUITY_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_CONTINUITY_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/log/log_budget.h"
#include "server/worker/continuity/module_variables.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/continuity/variable_carrier.h"
#include "server/worker/continuity/variable_placer.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/device_set.h"
#include "server/worker/executors/executor_host.h"

namespace warpline::worker {

// Thread-safe, except at the beginning and the end of a replay. A session with several devices has
// no next worker, and one without a recorder needs none; nothing is kept for these.
class Continuity : public StateObserver {
 public:
  // All pointers are borrowed; `recorder` may be null. `sm`, such as 90, decides which of a
  // module's images runs. Images are looked into for what kernels can write if
  // `reads_images`; otherwise those are asked who load them.
  Continuity(const DeviceSet* devices, Recorder* recorder, int sm, bool reads_images,
             LogBudget* log);

  // Between these two calls, modules that are loaded get their variables where the former worker
  // had them. Called with no executor at work.
  void BeginPlacing() RUNS_ON(decoder_thread);
  void EndPlacing() RUNS_ON(decoder_thread) { placer_.reset(); }

  // For a planned replacement: carry what module variables hold from this worker to the next, which
  // restores it after the replay. Called on any thread, with nothing in flight. The errors are
  // those of VariableCarrier, and FAILED_PRECONDITION with several devices. Save() needs a
  // recorder.
  absl::Status Save(int fd);
  absl::Status Restore(int fd) { return carrier_.Restore(fd); }

  // Implements StateObserver.
  void OnRecorded(const EventRecord& record) override;
  CudaResult PlaceVariables(const Task& task,
                            const std::function<CudaResult(device::ModuleId*)>& load) override;
  uint64_t VariableBytes(const Task& task) override;
  uint32_t OnModuleLoaded(const Task& task) override;
  void OnModuleUnloading(uint64_t module) override;
  void OnAtRisk(uint32_t flags) override;
  void OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) override;
  void OnLostWithWorker(bool any) override;

 private:
  bool keeps_variables() const { return recorder_ != nullptr && !devices_->several(); }

  const bool reads_images_;
  const DeviceSet* const devices_;
  Recorder* const recorder_;
  const int sm_;
  LogBudget* const log_;
  VariableCarrier carrier_;
  std::unique_ptr<VariablePlacer> placer_;
  ModuleVariables loading_;  // Those of the module that is being loaded. Control executor only.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_CONTINUITY_H_
