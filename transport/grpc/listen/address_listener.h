// Listening sockets of our own, so that a GrpcServer's connections can be counted and capped: gRPC
// itself takes as many as there are descriptors. Each connection gets a meter
// (transport/grpc/meter/metered_connections.h). Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/log/log_budget.h"
#include "common/loop/loop_affinity.h"
#include "common/unique_fd.h"
#include "transport/grpc/listen/connection_book.h"

namespace warpline::grpc_internal {

// Listens on one address. Bind(), Start() and Stop() are called by one thread, in this order.
class AddressListener {
 public:
  // Takes a connected descriptor, non-blocking. Called on the listener's thread.
  using Take = std::function<void(int fd)>;

  // Those that were taken are bounded by `limits`: see ConnectionBook.
  explicit AddressListener(const ConnectionLimits& limits);
  ~AddressListener() { Stop(); }
  AddressListener(const AddressListener&) = delete;
  AddressListener& operator=(const AddressListener&) = delete;

  // Before Bind(), for a unix socket: its file is for its owner alone, and who connects all the
  // same without being IsOwnUser() is hung up on.
  void TakeOwnUserOnly() { own_user_only_ = true; }
  // "host:port" (port 0 for any), "[ipv6]:port" or "unix:/path", whose file is replaced unless
  // somebody listens there. UNAVAILABLE, naming the address and what is wrong.
  absl::Status Bind(const std::string& address);
  // 0 for a unix socket.
  int port() const { return port_; }
  // Those that were taken. Thread-safe.
  ConnectionBook& connections() { return connections_; }

  // RESOURCE_EXHAUSTED when there is no thread to be had.
  absl::Status Start(Take take);
  // Closes the sockets; `take` is not called any more once it returns.
  void Stop();

 private:
  absl::Status BindUnix(const std::string& path);
  absl::Status BindHost(const std::string& host, const std::string& port);
  void Run() RUNS_ON(on_listener_);
  // Takes connections from the system, so many at once, to wait for their turn.
  void AcceptFrom(int socket) RUNS_ON(on_listener_);
  // Closes the oldest connection that waits, of the peer that has the most.
  void DropOldest() RUNS_ON(on_listener_);
  // Passes on one connection of the next peer that has any.
  void PassOnNext() RUNS_ON(on_listener_);
  void PassOn(UniqueFd fd) RUNS_ON(on_listener_);
  // Logs once, until that is over, that no more connections fit.
  void NoteFull(bool full, const char* what) RUNS_ON(on_listener_);

  const ConnectionLimits limits_;
  ConnectionBook connections_;
  bool own_user_only_ = false;
  int port_ = 0;
  std::string socket_path_;
  std::vector<UniqueFd> sockets_;
  UniqueFd stop_;
  Take take_;
  LoopAffinity on_listener_;  // The thread.
  std::thread thread_;
  // The connections that wait for their turn, by peer. A peer that opens many at once keeps nobody
  // else waiting.
  std::map<std::string, std::deque<UniqueFd>> waiting_ ABSL_GUARDED_BY(on_listener_);
  size_t waiting_count_ ABSL_GUARDED_BY(on_listener_) = 0;
  std::string last_peer_ ABSL_GUARDED_BY(on_listener_);
  bool said_full_ ABSL_GUARDED_BY(on_listener_) = false;
  LogBudget log_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_
