// The server's end: listens, and hands each new session's stream to an Acceptor.
//
// Every session has a thread of its own, which asks the acceptor (so that a slow answer delays
// nobody else), runs the handler, and destroys it after OnClosed(). gRPC's health service
// (grpc.health.v1) answers on the same listeners.
//
// Peers are not trusted: a frame above the limit ends its session (with INVALID_ARGUMENT, or, far
// above it, with UNAVAILABLE, since gRPC then cuts the stream by itself), a connection that does
// not finish its HTTP/2 handshake is dropped, as is one that has carried no call for a while,
// connections are capped for each address (grpc_internal::AddressListener), sessions and
// connections of peers that have not been admitted for each peer (StrangerBook), and
// what an unread session holds in memory is bounded.
//
// A session's thread polls its own connection while it is active. So that nobody else takes its
// events, the accepting thread looks for new sessions only every few milliseconds while others run,
// the first GrpcServer of a process chooses GRPC_POLL_STRATEGY=poll for it if gRPC has not started
// yet, and health is answered without gRPC's own service and its threads.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_SERVER_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/listener.h"
#include "transport/unary_methods.h"

namespace warpline {

struct GrpcServerOptions {
  ChannelOptions channel;
  // Sessions above this many are refused with RESOURCE_EXHAUSTED, before they get a thread.
  int max_sessions = 256;
  // Of those that are not admitted, in all and of one peer: see ListenerOptions.
  int max_strangers = 128;
  int max_strangers_of_peer = 64;
  // Connections that each address may have at a time, and those of one peer without an admitted
  // session: see grpc_internal::ConnectionBook.
  int max_connections = 1024;
  int max_strange_connections_of_peer = 256;
  // Streams that one connection may have open.
  int max_streams_per_connection = 16;
  size_t max_frame_payload = kMaxFramePayload;
  // Sessions move large data. Without it a stream takes no more than 64 KiB that nobody reads.
  bool bulk = true;
  // A connection that has not finished its handshake by then is dropped.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // A connection that has had no call for so long is told to go.
  absl::Duration connection_idle = absl::Seconds(10);
  // A client that pings more often than this is disconnected.
  absl::Duration min_ping_interval = absl::Milliseconds(200);
  // Above this many bytes in gRPC's buffers, over all connections, new connections are refused.
  size_t max_buffer_bytes = size_t{1} << 30;
  // Plain text without. With it clients of host:port addresses must present a certificate that its
  // roots sign; each connection is taken with the files as they are then.
  std::shared_ptr<TlsSource> tls = nullptr;
  // The same for unix sockets, which are plain text otherwise.
  bool tls_on_unix_sockets = false;
  // For unix sockets only: their files are for this process's user alone, and so are connections.
  // Processes that this one started do not count as that user's.
  bool own_user_only = false;
  // For tests: how a session's thread is started; TryStartLoopThread() when empty.
  std::function<absl::StatusOr<std::thread>(const char* name, const std::function<void()>& body)>
      start_thread = nullptr;
  // More to answer on the same listeners.
  UnaryMethods methods = {};
  UnaryMethodQueues method_queues = {};
};

// Listens on addresses of the forms "host:port" (port 0 for any), "[ipv6]:port" and "unix:/path".
class GrpcServer : public Listener {
 public:
  explicit GrpcServer(GrpcServerOptions options);
  ~GrpcServer() override;

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor) override;
  std::vector<std::string> addresses() const override;
  // By gRPC's health service, for every service name. NOT_SERVING until set.
  void SetServing(bool serving) override;
  int sessions() const override;
  void Shutdown(absl::Duration deadline) override;

  // The port of the first "host:port" address; 0 when there is none.
  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_SERVER_H_
