#include <string>
#include <utility>

#include "client_stub/session/session_impl.h"
#include "transport/grpc/grpc_client.h"

namespace warpline::stub {

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  auto session = OpenSession(
      options, [](const std::string& endpoint, ChannelHandler* handler, absl::Duration deadline) {
        const GrpcTarget target = {.address = endpoint, .tls = ClientTls(endpoint)};
        return DialGrpc(target, handler, ChannelOptions(), deadline);
      });
  if (!session.ok()) return session.status();
  return std::unique_ptr<Session>(*std::move(session));
}

}  // namespace warpline::stub
