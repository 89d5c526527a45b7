// The state of a fake session, which the test sets.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_

#include <utility>

#include "client_stub/session/session_status.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class FakeStatus : public SessionStatus {
 public:
  void SetError(CudaResult error) {
    MutexLock lock(&mu_);
    error_ = error;
  }
  void SetDeferred(CudaResult error) {
    MutexLock lock(&mu_);
    deferred_ = error;
  }

  CudaResult error() const override {
    MutexLock lock(&mu_);
    return error_;
  }
  CudaResult TakeDeferred() override {
    MutexLock lock(&mu_);
    return std::exchange(deferred_, CudaResult::kSuccess);
  }
  void WriteOutput() override {}
  bool ExpectsOutput() const override { return false; }

 private:
  mutable Mutex mu_;
  CudaResult error_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  CudaResult deferred_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_
