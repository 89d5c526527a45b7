// The state of a session: its error, and the output of its kernels.
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"

namespace warpline::stub {

// Thread-safe.
class SessionStatus {
 public:
  virtual ~SessionStatus() = default;

  // Returns the session's error: kSuccess, or the sticky error that every call returns from now on.
  // One relaxed load.
  virtual CudaResult error() const = 0;

  // Returns, once, the error of an earlier one-way command that failed without ending the session.
  // It is for waits that the completion board answers; waits that the server answers return this
  // error themselves.
  virtual CudaResult TakeDeferred() = 0;

  // Returns the error with which the one-way command `seq` failed without ending the session, for
  // the call that sent it; kSuccess if it has not failed, or many others have failed since. No wait
  // returns that error any more.
  virtual CudaResult TakeFailureOf(uint64_t seq) = 0;

  // Writes the output of complete kernels with the application's stdio. Waits do so by themselves.
  virtual void WriteOutput() = 0;
  // Whether kernels of the session may print.
  virtual bool ExpectsOutput() const = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_STATUS_H_
