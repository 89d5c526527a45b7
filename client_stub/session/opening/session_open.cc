#include <string>
#include <utility>

#include "client_stub/session/opening/session_impl.h"
#include "transport/grpc/grpc_client.h"

namespace warpline::stub {

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  const auto open = [](const SessionOptions& to) {
    return OpenSession(
        to, [](const DialTarget& target, ChannelHandler* handler, absl::Duration deadline) {
          const GrpcTarget grpc_target = {.address = target.endpoint,
                                          .tls = ClientTls(target.endpoint),
                                          .listener_uid = target.listener_uid};
          return DialGrpc(grpc_target, handler, ChannelOptions(), deadline);
        });
  };
  auto session = open(options);
  // A scheduler names the server; a server that names another is not followed.
  SessionOptions redirected = options;
  if (!session.ok() && options.token.empty() && FollowRedirect(session.status(), &redirected)) {
    session = open(redirected);
  }
  if (!session.ok()) return session.status();
  return std::unique_ptr<Session>(*std::move(session));
}

}  // namespace warpline::stub
