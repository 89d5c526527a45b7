// What has become of a session: its error, and what its kernels printed.
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_

#include "common/cuda/cuda_result.h"

namespace warpline::stub {

// Thread-safe.
class SessionStatus {
 public:
  virtual ~SessionStatus() = default;

  // The session's error: kSuccess, or the sticky error that every call returns from now on. One
  // relaxed load.
  virtual CudaResult error() const = 0;

  // The error of an earlier one-way command that failed without ending the session, once: for
  // waits that the completion board answers (those with an answer from the server return it).
  virtual CudaResult TakeDeferred() = 0;

  // Writes what complete kernels printed with the application's stdio. Waits do so by themselves.
  virtual void WriteOutput() = 0;
  // Whether kernels of the session may print.
  virtual bool ExpectsOutput() const = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_
