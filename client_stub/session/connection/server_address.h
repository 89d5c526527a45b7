// Where a session's server is. It is the address at which the session was opened, until the session
// follows its lease to another server.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_SERVER_ADDRESS_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_SERVER_ADDRESS_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class ServerAddress {
 public:
  void Set(std::string endpoint) {
    MutexLock lock(&mu_);
    endpoint_ = std::move(endpoint);
  }
  std::string Get() const {
    MutexLock lock(&mu_);
    return endpoint_;
  }

 private:
  mutable Mutex mu_;
  std::string endpoint_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_SERVER_ADDRESS_H_
