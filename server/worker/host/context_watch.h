// Watches over the hardware context that the sessions of a process share.
#ifndef WARPLINE_SERVER_WORKER_HOST_CONTEXT_WATCH_H_
#define WARPLINE_SERVER_WORKER_HOST_CONTEXT_WATCH_H_

#include <memory>

#include "common/cuda/cuda_result.h"
#include "server/device/device.h"

namespace warpline::worker {

// Thread-safe.
class ContextWatch {
 public:
  // `context` is of the shared device, and nobody else's.
  explicit ContextWatch(std::unique_ptr<device::Context> context);

  // The error with which the context has ended for everybody, which is any; kSuccess while it is
  // alive. A session may end with a sticky error by itself, as after a failed assertion.
  CudaResult Look();

 private:
  const std::unique_ptr<device::Context> context_;
  device::EventId event_{};
  CudaResult made_ = CudaResult::kSuccess;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_CONTEXT_WATCH_H_
