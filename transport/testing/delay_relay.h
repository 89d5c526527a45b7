// A TCP relay that stands in for a slow or failing network: it delivers every byte a fixed time
// after it came, in order, without limiting how much is under way.
//
// For tests and experiments on one machine; nobody is authenticated.
#ifndef WARPLINE_TRANSPORT_TESTING_DELAY_RELAY_H_
#define WARPLINE_TRANSPORT_TESTING_DELAY_RELAY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpline {

// Thread-safe. Runs on a thread of its own, which ends with the object; connections then end too.
class DelayRelay {
 public:
  // Listens on `listen` ("host:port", port 0 for any) and relays each connection to `target`
  // ("host:port" or "unix:/path"), `delay` each way. INVALID_ARGUMENT for addresses of another
  // form, UNAVAILABLE when the first cannot be listened on.
  static absl::StatusOr<std::unique_ptr<DelayRelay>> Start(const std::string& listen,
                                                           const std::string& target,
                                                           absl::Duration delay);
  ~DelayRelay();

  int port() const;

  // For bytes that come from now on.
  void SetDelay(absl::Duration delay);

  // Resets all connections of the moment and returns how many there were. New ones are taken.
  int Cut();

  // While stalled nothing is delivered and no connection is taken or ended: a network that is gone
  // without a word.
  void SetStalled(bool stalled);

 private:
  class Impl;
  explicit DelayRelay(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TESTING_DELAY_RELAY_H_
