// Where TCP connections of a relay's session come to: bulk connections, and with TLS the session's
// own as well. Lets in those that show the secret.
#ifndef WARPLINE_SERVER_RELAY_BULK_BULK_SERVER_H_
#define WARPLINE_SERVER_RELAY_BULK_BULK_SERVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/loop/loop_affinity.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "server/hostlink/process/event_loop.h"
#include "server/relay/bulk/bulk_connection.h"
#include "server/relay/bulk/relay_memory.h"
#include "transport/bulk/bulk_socket.h"
#include "transport/tls/tls_hello.h"
#include "transport/tls/tls_stream.h"

namespace warpline::relay {

// What belongs to the loop on which bulk connections are let in.
inline LoopAffinity bulk_loop;

// A socket that listens at `ip`, at a port from `first_port` to `last_port`, both 0 for any.
// UNAVAILABLE when none of them is free.
absl::StatusOr<UniqueFd> ListenForBulk(const std::string& ip, uint32_t first_port,
                                       uint32_t last_port);

class BulkServer {
 public:
  // Clients that are connected and have not shown the secret, at a time.
  static constexpr size_t kMostStrangers = 32;

  // `listening` is of ListenForBulk(). At the other end of `server`, which does not block and is
  // borrowed, the server hands out memory (proto/relay.proto); nobody else reads from it. Starts
  // threads.
  BulkServer(UniqueFd listening, int server, std::string secret, bool tls);
  // Ends all connections.
  ~BulkServer();

  // With TLS: waits for the connection of the session itself, and returns it. It comes once.
  // UNAVAILABLE when it has not come until then.
  absl::StatusOr<std::unique_ptr<TlsStream>> AwaitSession(absl::Time until);

 private:
  // A client that has not said enough yet.
  struct Stranger {
    UniqueFd fd;
    std::unique_ptr<TlsStream> stream;  // In place of `fd`, with TLS.
    bool shaken = false;                // The stream's handshake is complete.
    BulkSocketHello hello = {};
    TlsHello tls_hello = {};
    size_t got = 0;
    EventLoop::Token watch = 0;
    EventLoop::Token timer = 0;
  };

  void StopWatching(EventLoop::Token* watch) RUNS_ON(bulk_loop);
  void OnServer() RUNS_ON(bulk_loop);
  void OnConnections() RUNS_ON(bulk_loop);
  void OnConnection(UniqueFd fd) RUNS_ON(bulk_loop);
  void OnHello(uint64_t id) RUNS_ON(bulk_loop);
  void OnTlsHello(uint64_t id) RUNS_ON(bulk_loop);
  void Forget(uint64_t id) RUNS_ON(bulk_loop);
  void Welcome(std::unique_ptr<BulkSocket> socket, uint32_t slot) RUNS_ON(bulk_loop);
  void WelcomeSession(std::unique_ptr<TlsStream> stream) RUNS_ON(bulk_loop);
  // Of connections' threads.
  void CountMoved(uint64_t bytes);
  void Report() RUNS_ON(bulk_loop);

  const UniqueFd listening_;
  const int server_;
  const std::string secret_;
  const bool tls_;
  RelayMemory memory_;
  BulkConnection::Host host_;
  std::atomic<uint64_t> moved_{0};  // And not reported.
  std::atomic<bool> report_due_{false};

  Mutex mu_;
  CondVar came_;
  std::unique_ptr<TlsStream> session_ ABSL_GUARDED_BY(mu_);
  bool session_came_ ABSL_GUARDED_BY(mu_) = false;

  EventLoop::Token server_watch_ ABSL_GUARDED_BY(bulk_loop) = 0;
  EventLoop::Token listening_watch_ ABSL_GUARDED_BY(bulk_loop) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(bulk_loop) = 0;
  std::map<uint64_t, Stranger> strangers_ ABSL_GUARDED_BY(bulk_loop);
  std::array<std::unique_ptr<BulkConnection>, kMaxBulkConnections> connections_
      ABSL_GUARDED_BY(bulk_loop);
  // The last member: what is on it uses the others.
  EventLoop loop_{"wl-relay-door", &bulk_loop};
};

}  // namespace warpline::relay

#endif  // WARPLINE_SERVER_RELAY_BULK_BULK_SERVER_H_
