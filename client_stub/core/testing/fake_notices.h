// Notices that a test sends.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_NOTICES_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_NOTICES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "client_stub/session/notices.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class FakeNotices : public Notices {
 public:
  // Sends the worker's notice that a HostCall's turn has come; kNoToken says that the session is
  // lost.
  void HostDue(uint64_t token) {
    Callback callback;
    {
      MutexLock lock(&mu_);
      callback = host_due_;
    }
    if (callback) callback(token);
  }

  void SetFreedCallback(uint32_t, Callback) override {}
  void SetUnmappedCallback(Callback callback) override {
    MutexLock lock(&mu_);
    unmapped_ = std::move(callback);
  }
  void SetHostDueCallback(Callback callback) override {
    MutexLock lock(&mu_);
    host_due_ = std::move(callback);
  }

 protected:
  void Unmapped(const std::vector<uint64_t>& tokens) {
    Callback callback;
    {
      MutexLock lock(&mu_);
      callback = unmapped_;
    }
    for (const uint64_t token : tokens) callback(token);
  }

 private:
  Mutex mu_;
  Callback unmapped_ ABSL_GUARDED_BY(mu_);
  Callback host_due_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_NOTICES_H_
