// Where the bulk connections of a session's relay come to, as long as it has one.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_RELAY_TARGET_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_RELAY_TARGET_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class RelayTarget {
 public:
  struct Address {
    std::string endpoint;  // Empty for none.
    std::string secret;
  };

  void Set(Address address) {
    MutexLock lock(&mu_);
    address_ = std::move(address);
  }
  Address Get() {
    MutexLock lock(&mu_);
    return address_;
  }

 private:
  Mutex mu_;
  Address address_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_RELAY_TARGET_H_
