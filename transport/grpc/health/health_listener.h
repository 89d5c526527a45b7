// Says how a program is at an address of its own, in plain text: what asks there (the kubelet, a
// load balancer) seldom has a certificate. It answers grpc.health.v1.Health/Check and nothing else.
//
//   auto health = HealthListener::Start("[::]:14001");
//   if (!health.ok()) ...
//   (*health)->SetReady(true);
#ifndef WARPLINE_TRANSPORT_GRPC_HEALTH_HEALTH_LISTENER_H_
#define WARPLINE_TRANSPORT_GRPC_HEALTH_HEALTH_LISTENER_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/channel.h"
#include "transport/grpc/grpc_server.h"

namespace warpline {

// Of the services that can be asked for, "liveness" is serving for as long as the listener is
// there, and "readiness" and "" while the program is ready. Others are NOT_FOUND.
//
// Thread-safe. Ends with its destructor.
class HealthListener {
 public:
  // Null for an empty address. INVALID_ARGUMENT for one that CheckHealthAddress() refuses,
  // UNAVAILABLE when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HealthListener>> Start(const std::string& address);
  ~HealthListener();

  // Not ready until set.
  void SetReady(bool ready) { ready_.store(ready, std::memory_order_relaxed); }
  int port() const { return server_.port(); }

 private:
  HealthListener();

  absl::StatusOr<std::string> Check(const std::string& request) const;

  // There are no sessions.
  class Nobody : public Acceptor {
    std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;
  };

  std::atomic<bool> ready_{false};
  Nobody nobody_;
  GrpcServer server_;  // Last: its threads use the others.
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_HEALTH_HEALTH_LISTENER_H_
