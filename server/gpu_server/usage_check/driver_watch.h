// Reads what the driver measures of the GPUs that dispatch gives in turns, and acts on it. The
// watch tells the dispatcher of power and heat, and charges slices for time that they have used
// without being given it. It ends sessions whose workers keep on doing so (DriverUsageCheck).
#ifndef WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_WATCH_H_
#define WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/keyed_log_budget.h"
#include "common/mutex.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/nvml/readings.h"
#include "server/gpu_server/usage_check/driver_usage_check.h"

namespace warpline::server {

struct DriverWatchOptions {
  std::map<int, std::string> pci_bus_ids;      // Of the GPUs, by ordinal.
  dispatch::Dispatcher* dispatcher = nullptr;  // Borrowed.
  // Loads NVML, on the watch's thread. It is another library than the sampler's, since that one may
  // be in a slow call.
  std::function<absl::StatusOr<std::unique_ptr<nvml::Library>>()> load = &nvml::Library::Load;
  // Ends a session for this reason. Called on the watch's thread.
  std::function<void(uint64_t session, const std::string& reason)> end_session;
  UsageCheckOptions check;
  absl::Duration period = absl::Milliseconds(250);
  // Steady.
  int64_t (*clock)() = &dispatch::MonotonicNs;
  // Without it ReadNow() is called instead; for tests.
  bool has_thread = true;
};

// Where there is no NVML, or it does not say what processes used, that is said once in the log, and
// whoever does not keep to dispatch is not noticed.
class DriverWatch {
 public:
  // RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<DriverWatch>> Create(DriverWatchOptions options);
  // Waits for a call to NVML that is under way.
  ~DriverWatch();
  DriverWatch(const DriverWatch&) = delete;
  DriverWatch& operator=(const DriverWatch&) = delete;

  // One reading of all GPUs that are dispatched. False where there is no NVML.
  bool ReadNow();

 private:
  struct Gpu {
    explicit Gpu(const UsageCheckOptions& options) : check(options) {}
    DriverUsageCheck check;
    bool off = false;  // The driver does not say; that was logged.
  };

  explicit DriverWatch(DriverWatchOptions options);
  void Run();
  void CheckUse(int ordinal, const std::string& pci_bus_id, const dispatch::GpuUse& use);
  void Act(int ordinal, const Overdraft& over);
  void SayOff(int ordinal, Gpu* gpu, const std::string& why);

  const DriverWatchOptions options_;
  // Of the thread that reads.
  std::unique_ptr<nvml::Library> library_;
  bool tried_ = false;
  std::map<int, Gpu> gpus_;
  KeyedLogBudget log_;  // By tenant.

  Mutex mu_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_WATCH_H_
