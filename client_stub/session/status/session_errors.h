// The state of a session, as its parts report it.
#ifndef WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_
#define WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_

#include <atomic>

#include "client_stub/session/session_status.h"
#include "client_stub/session/status/output_buffer.h"
#include "common/cuda/cuda_result.h"

namespace warpline::stub {

// Thread-safe.
class SessionErrors final : public SessionStatus {
 public:
  CudaResult error() const override {
    return static_cast<CudaResult>(error_.load(std::memory_order_relaxed));
  }
  CudaResult TakeDeferred() override;
  void WriteOutput() override { output_.Write(); }
  bool ExpectsOutput() const override { return output_.expected(); }

  // Makes the session lost with `error`, unless it is lost already.
  void Lose(CudaResult error);
  // Notes that the session ends because the application does. Returns whether it was sound until
  // now.
  bool End();
  // Notes that a one-way command failed without ending the session. The first one's error is kept.
  void Defer(CudaResult error);

  OutputBuffer& output() { return output_; }

 private:
  std::atomic<int> error_{0};
  std::atomic<int> deferred_{0};
  OutputBuffer output_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_ERRORS_H_
