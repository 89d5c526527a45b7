// The state of a session, as its parts report it.
#ifndef WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_
#define WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client_stub/session/session_status.h"
#include "client_stub/session/status/output_buffer.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class SessionErrors final : public SessionStatus {
 public:
  CudaResult error() const override {
    return static_cast<CudaResult>(error_.load(std::memory_order_relaxed));
  }
  CudaResult TakeDeferred() override;
  CudaResult TakeFailureOf(uint64_t seq) override;
  void WriteOutput() override { output_.Write(); }
  bool ExpectsOutput() const override { return output_.expected(); }

  // Makes the session lost with `error`, unless it is lost already.
  void Lose(CudaResult error);
  // Notes that the session ends because the application does. Returns whether it was sound until
  // now.
  bool End();
  // Notes that the one-way command `seq` failed without ending the session. Of the errors that no
  // wait has returned, the first one is kept for that; for TakeFailureOf(), the latest kRemembered.
  void Defer(uint64_t seq, CudaResult error);
  static constexpr size_t kRemembered = 64;

  OutputBuffer& output() { return output_; }

 private:
  struct Failure {
    uint64_t seq = 0;
    CudaResult error = CudaResult::kSuccess;
  };

  std::atomic<int> error_{0};
  OutputBuffer output_;
  std::atomic<bool> has_deferred_{false};  // Written under `mu_`; most waits find nothing.
  Mutex mu_;
  Failure deferred_ ABSL_GUARDED_BY(mu_);
  std::array<Failure, kRemembered> latest_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_
