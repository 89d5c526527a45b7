#include <memory>
#include <utility>

#include "common/serving/listen_address.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/grpc_transport.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline {
namespace {

std::unique_ptr<Listener> MakeGrpcListener(ListenerOptions options) {
  GrpcServerOptions made;
  made.channel = options.channel;
  made.max_sessions = options.max_sessions;
  made.max_strangers = options.max_strangers;
  made.max_strangers_of_peer = options.max_strangers_of_peer;
  made.max_connections = options.max_connections;
  // Small calls, such as those of NVML, come by connections of their own.
  made.max_strange_connections_of_peer = 4 * options.max_strangers_of_peer;
  made.max_buffer_bytes = options.max_buffer_bytes;
  if (!options.tls.empty()) {
    made.tls = std::make_shared<TlsSource>(TlsSource::Side::kServer, std::move(options.tls));
    made.tls_on_unix_sockets = options.tls_on_unix_sockets;
  }
  made.own_user_only = options.own_user_only;
  made.methods = std::move(options.methods);
  return std::make_unique<GrpcServer>(std::move(made));
}

}  // namespace

ServerEnd GrpcServerEnd() {
  return {.transport = kGrpcTransport, .check = &CheckListenAddress, .make = &MakeGrpcListener};
}

}  // namespace warpline
