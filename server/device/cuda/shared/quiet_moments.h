// Makes moments at which no kernel runs on a shared device. They are for loading and unloading
// code, and for locking pages of the host.
//
// The driver loads or unloads a library when all running kernels of the hardware context are
// complete. Until then it holds a lock that others' launches and copies need. A kernel that waits
// for a copy would then wait for ever. This was measured on an H100 with driver 580, with kernels
// in any stream or green context, and with lazy and eager loading.
//
// So the wait happens here, while all copies and events go on. Launches are held back for a short
// time, in which running kernels may end. If they do not end, launches go on, and a longer pause
// follows later.
//
//   QuietMoments moments;
//   { const QuietMoments::Launch launch(&moments); api->p_cuLaunchKernel(...); }
//   CUresult result = moments.At([&] { return api->p_cuLibraryLoadData(...); });
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_QUIET_MOMENTS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_QUIET_MOMENTS_H_

#include <atomic>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// A context that launches kernels. Its methods are thread-safe.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // Returns whether all kernels that it has launched are complete, or have failed. Does not wait.
  virtual bool Quiet() = 0;
  // Notes where its kernels are under way. Called now and then. Does not wait.
  virtual void Look() = 0;
  // Asks it to end its kernels, because they do not end and others wait. May be called repeatedly.
  virtual void Overdue() = 0;
};

struct QuietOptions {
  // The first pause of launches. Each further pause is twice as long, up to `most_pause`. Between
  // two pauses launches go on for three times as long as the last pause.
  absl::Duration first_pause = absl::Milliseconds(5);
  absl::Duration most_pause = absl::Milliseconds(640);
  // If there is no moment within `patience`, launches are held back for `last_pause`. Sources whose
  // kernels still run then are overdue. If these have not ended after `grace`, there is no moment.
  absl::Duration patience = absl::Seconds(10);
  absl::Duration last_pause = absl::Seconds(5);
  absl::Duration grace = absl::Seconds(2);
};

// Thread-safe. It outlives its sources and launches.
class QuietMoments {
 public:
  explicit QuietMoments(const DriverApi* api, QuietOptions options = {})
      : api_(api), options_(options) {}
  QuietMoments(const QuietMoments&) = delete;
  QuietMoments& operator=(const QuietMoments&) = delete;
  // Unloads the libraries that wait for it.
  ~QuietMoments();

  // Held during a call of the driver that launches kernels. The constructor waits while launches
  // are held back. A thread that holds one must not begin another.
  class Launch {
   public:
    // `moments` is null for a call that launches no kernels.
    explicit Launch(QuietMoments* moments) : moments_(moments) {
      if (moments_ != nullptr) moments_->BeginLaunch();
    }
    ~Launch() {
      if (moments_ != nullptr) moments_->launching_.fetch_sub(1, std::memory_order_acq_rel);
    }
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

   private:
    QuietMoments* const moments_;
  };

  void Join(KernelSource* source);
  // Removes the source. It is not called any more once this returns.
  void Leave(KernelSource* source);

  // Calls Look() of every source. A context must be current.
  void Look();
  // Makes the call at a quiet moment and returns its result; CUDA_ERROR_SYSTEM_NOT_READY if there
  // was no moment in time. A context must be current.
  CUresult At(absl::FunctionRef<CUresult()> call);
  // Makes a call that may be left out. If one short pause brings no moment, the call is not made
  // and CUDA_ERROR_NOT_READY is returned. A context must be current.
  CUresult IfQuiet(absl::FunctionRef<CUresult()> call);
  // Unloads the library at the next quiet moment. A context must be current.
  void UnloadLater(CUlibrary library);

 private:
  // At most this many libraries wait for another call's moment; for more, a moment is made.
  static constexpr size_t kMostWaiting = 128;

  void BeginLaunch();
  void HoldBack(bool hold);
  bool AllQuiet();
  // Holds launches back until no kernel runs, but no longer than `most`. Returns whether none runs.
  // Launches stay held back.
  bool Pause(absl::Duration most);
  // Makes the last pause, after which sources must end their kernels. Returns whether no kernel
  // runs. Launches stay held back.
  bool Insist();
  bool AwaitQuiet(absl::Time until);
  void UnloadWaiting();

  const DriverApi* const api_;
  const QuietOptions options_;
  std::atomic<bool> held_back_{false};
  std::atomic<int> launching_{0};
  Mutex mu_;  // No other lock is taken under it, and no call made.
  CondVar go_on_;
  std::vector<CUlibrary> waiting_ ABSL_GUARDED_BY(mu_);
  Mutex moment_mu_ ABSL_ACQUIRED_BEFORE(sources_mu_);  // Held while a moment is made.
  Mutex sources_mu_;  // Held while sources are asked; they call the driver.
  std::set<KernelSource*> sources_ ABSL_GUARDED_BY(sources_mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_QUIET_MOMENTS_H_
