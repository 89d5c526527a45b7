#include <string>
#include <utility>

#include "client_stub/session/opening/leader_search.h"
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
          // A relay shows by its secret that it is the server's, which named it on a connection
          // with TLS. It does not encrypt: the operator trusts the network.
          const bool relay = !target.secret.empty();
          return Dial({.address = target.endpoint,
                       .tls = relay ? TlsFiles() : TlsFilesFromEnvironment(),
                       .listener_uid = target.listener_uid,
                       .secret = target.secret,
                       .via = target.via},
                      handler, {.gather = kGather}, deadline);
        });
  };
  SessionOptions first = options;
  first.direct = options.direct && TlsFilesFromEnvironment().empty();
  std::unique_ptr<Session> opened;
  const absl::Status status = OpenWhereLed(first, [&](const SessionOptions& to) {
    auto session = open(to);
    if (session.ok()) opened = *std::move(session);
    return session.status();
  });
  if (!status.ok()) return status;
  return opened;
}

}  // namespace warpline::stub
