// Listening sockets of our own, so that a GrpcServer's connections can be counted and capped: gRPC
// itself takes as many as there are descriptors. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/log/log_budget.h"
#include "common/unique_fd.h"

namespace warpline::grpc_internal {

// Listens on one address. Bind(), Start() and Stop() are called by one thread, in this order.
class AddressListener {
 public:
  // Takes a connected descriptor, non-blocking. Called on the listener's thread.
  using Take = std::function<void(int fd)>;

  // At most `max_connections` that were taken are open at a time; more are closed at once.
  explicit AddressListener(int max_connections);
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

  // RESOURCE_EXHAUSTED when there is no thread to be had.
  absl::Status Start(Take take);
  // Closes the sockets; `take` is not called any more once it returns.
  void Stop();

 private:
  // A connection that was taken: what its descriptor must still be for it to be open.
  struct Taken {
    int fd;
    ino_t inode;
  };

  absl::Status BindUnix(const std::string& path);
  absl::Status BindHost(const std::string& host, const std::string& port);
  void Run();
  void AcceptFrom(int socket);
  // Whether there is room for one more.
  bool HasRoom();

  const int max_connections_;
  bool own_user_only_ = false;
  int port_ = 0;
  std::string socket_path_;
  std::vector<UniqueFd> sockets_;
  UniqueFd stop_;
  Take take_;
  std::thread thread_;
  // Of the thread.
  std::vector<Taken> taken_;
  bool said_full_ = false;
  LogBudget log_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_ADDRESS_LISTENER_H_
