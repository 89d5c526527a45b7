#include <utility>

#include "client_stub/session/session_impl.h"
#include "transport/grpc/grpc_client.h"

namespace warpline::stub {

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  const GrpcTarget target = {.address = options.endpoint, .tls = ClientTls(options.endpoint)};
  auto session = OpenSession(options, [&](ChannelHandler* handler, absl::Duration deadline) {
    return DialGrpc(target, handler, ChannelOptions(), deadline);
  });
  if (!session.ok()) return session.status();
  return std::unique_ptr<Session>(*std::move(session));
}

}  // namespace warpline::stub
