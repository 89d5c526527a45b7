// The state of a fake session, which the test sets.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_

#include <cstdint>
#include <map>
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
  // The command with this number has failed, or will when it is sent.
  void SetFailureOf(uint64_t seq, CudaResult error) {
    MutexLock lock(&mu_);
    failed_[seq] = error;
  }

  CudaResult error() const override {
    MutexLock lock(&mu_);
    return error_;
  }
  CudaResult TakeDeferred() override {
    MutexLock lock(&mu_);
    return std::exchange(deferred_, CudaResult::kSuccess);
  }
  CudaResult TakeFailureOf(uint64_t seq) override {
    MutexLock lock(&mu_);
    const auto found = failed_.find(seq);
    return found == failed_.end() ? CudaResult::kSuccess : failed_.extract(found).mapped();
  }
  void WriteOutput() override {}
  bool ExpectsOutput() const override { return false; }

 private:
  mutable Mutex mu_;
  CudaResult error_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  CudaResult deferred_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  std::map<uint64_t, CudaResult> failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_STATUS_H_
