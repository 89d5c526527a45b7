// Moments at which no kernel runs on a shared device, for loading and unloading code, and for
// locking pages of the host.
//
// The driver loads a library, and unloads one, when all running kernels of the hardware context are
// complete, and until then it holds a lock that others' launches and copies need (measured on an
// H100 with driver 580: with any kernel running, in whatever stream or green context, with lazy and
// with eager loading). A kernel that waits for a copy would then wait for ever. So it is waited for
// here, while everybody's copies and events go on: launches are held back for a short time, in
// which what runs may end; if it does not, they go on, and another, longer pause is made later.
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

// Somebody who launches kernels. Its methods are thread-safe.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // Whether all kernels that have been launched are complete, or have failed. It does not wait.
  virtual bool Quiet() = 0;
  // Called now and then: where its kernels are under way is to be seen. It does not wait.
  virtual void Look() = 0;
  // Its kernels do not end, and others wait: they are to be ended. It may be told more than once.
  virtual void Overdue() = 0;
};

struct QuietOptions {
  // Launches are held back for so long at first, and then for twice as long each time, up to
  // `most_pause`; between two pauses they go on for three times as long as the last one.
  absl::Duration first_pause = absl::Milliseconds(5);
  absl::Duration most_pause = absl::Milliseconds(640);
  // When there was no moment for so long, launches are held back for `last_pause`. Sources whose
  // kernels run even then are overdue. When theirs have not ended after `grace` either, there is
  // no moment.
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
  // Unloads what is left.
  ~QuietMoments();

  // Held while a call of the driver is made that launches kernels. It waits while launches are held
  // back; whoever has one begins no other.
  class Launch {
   public:
    // Null for a call that launches none.
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
  // Returns when nobody asks the source any more.
  void Leave(KernelSource* source);

  // Has every source look. A context is current.
  void Look();
  // Makes the call at a quiet moment and returns what it returns; CUDA_ERROR_SYSTEM_NOT_READY if
  // there was none in time. A context is current.
  CUresult At(absl::FunctionRef<CUresult()> call);
  // The same for what nobody waits for: if there is no moment after one short pause the call is not
  // made, and CUDA_ERROR_NOT_READY returned.
  CUresult IfQuiet(absl::FunctionRef<CUresult()> call);
  // Has the library unloaded at the next quiet moment. A context is current.
  void UnloadLater(CUlibrary library);

 private:
  // That many libraries wait for somebody else's moment; for more, one is made.
  static constexpr size_t kMostWaiting = 128;

  void BeginLaunch();
  void HoldBack(bool hold);
  bool AllQuiet();
  // Holds launches back until all is quiet, and returns true, or for so long at most.
  bool Pause(absl::Duration most);
  // As Pause(), until the sources that are not quiet have had to end their kernels. Launches stay
  // held back.
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
  Mutex moment_mu_ ABSL_ACQUIRED_BEFORE(sources_mu_);  // Held by whoever makes a moment.
  Mutex sources_mu_;  // Held while sources are asked, who call the driver.
  std::set<KernelSource*> sources_ ABSL_GUARDED_BY(sources_mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_QUIET_MOMENTS_H_
