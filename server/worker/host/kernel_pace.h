// How fast the kernels of sessions on a shared device go, as the server says.
//
// The word by which a session's kernels go lies in device memory, and writing it takes a copy of
// four bytes. The thread that receives the server's messages waits for nothing of the device's, so
// it leaves what is to be written to a KernelPacer. Between that and the session, which may end
// meanwhile, lies a KernelPace.
#ifndef WARPLINE_SERVER_WORKER_HOST_KERNEL_PACE_H_
#define WARPLINE_SERVER_WORKER_HOST_KERNEL_PACE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace warpline::worker {

// One session's. Thread-safe.
class KernelPace {
 public:
  // `write` has threads of the session's kernels nap for so many nanoseconds each time that they
  // ask, and waits until that is so.
  explicit KernelPace(absl::AnyInvocable<void(uint32_t nap_ns)> write) : write_(std::move(write)) {}

  void Set(uint32_t nap_ns) {
    MutexLock lock(&mu_);
    if (!write_) return;
    slow_.store(nap_ns != 0, std::memory_order_relaxed);
    write_(nap_ns);
  }
  // The session ends: waits until nothing is being written, and nothing is from now on.
  void Close() {
    MutexLock lock(&mu_);
    write_ = nullptr;
  }
  // Whether kernels do not go as fast as they can.
  bool slow() const { return slow_.load(std::memory_order_relaxed); }

 private:
  Mutex mu_;  // Held during the call.
  absl::AnyInvocable<void(uint32_t)> write_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> slow_{false};
};

// Writes on a thread of its own. Thread-safe.
class KernelPacer {
 public:
  // RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<KernelPacer>> Start();
  KernelPacer(const KernelPacer&) = delete;
  KernelPacer& operator=(const KernelPacer&) = delete;
  // What has not been written is dropped.
  ~KernelPacer();

  // Waits for nobody. Of what is left for the same session meanwhile, the last counts.
  void Set(std::shared_ptr<KernelPace> pace, uint32_t nap_ns);

 private:
  KernelPacer() = default;
  void Run();

  Mutex mu_;  // No other lock is taken under it, and no call made.
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::shared_ptr<KernelPace>, uint32_t> wanted_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_KERNEL_PACE_H_
