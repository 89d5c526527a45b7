#include <string>
#include <utility>

#include "client_stub/session/opening/session_impl.h"
#include "common/serving/tls_files.h"
#include "transport/registry/dial.h"

namespace warpline::stub {
namespace {

// About what the server and the worker have to do for a frame of a few launches.
constexpr absl::Duration kGather = absl::Microseconds(3);

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options) {
  const auto open = [](const SessionOptions& to) {
    return OpenSession(
        to, [](const DialTarget& target, ChannelHandler* handler, absl::Duration deadline) {
          // A lane shows by its secret that it is the server's, which named it on a connection with
          // TLS. It does not encrypt: the operator trusts the network.
          const bool lane = !target.secret.empty();
          return Dial({.address = target.endpoint,
                       .tls = lane ? TlsFiles() : TlsFilesFromEnvironment(),
                       .listener_uid = target.listener_uid,
                       .secret = target.secret},
                      handler, {.gather = kGather}, deadline);
        });
  };
  SessionOptions first = options;
  first.direct = options.direct && TlsFilesFromEnvironment().empty();
  auto session = open(first);
  // A scheduler names the server; a server that names another is not followed.
  SessionOptions redirected = first;
  if (!session.ok() && options.token.empty() && FollowRedirect(session.status(), &redirected)) {
    session = open(redirected);
  }
  if (!session.ok()) return session.status();
  return std::unique_ptr<Session>(*std::move(session));
}

}  // namespace warpline::stub
