#include "client_stub/session/opening/other_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client_stub/session/connection/local_server.h"
#include "common/log/log.h"
#include "common/process_identity.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

bool IsLoopback(const std::string& endpoint) {
  return absl::StartsWith(endpoint, "127.") || absl::StartsWith(endpoint, "localhost:") ||
         absl::StartsWith(endpoint, "[::1]:");
}

}  // namespace

std::optional<DialTarget> OtherAddress(const Welcomed& welcomed, const std::string& endpoint) {
  if (welcomed.unix_socket.empty() || !IsLoopback(endpoint)) return std::nullopt;
  if (welcomed.boot_id != BootId()) return std::nullopt;
  // In a container the path may lead elsewhere than on the server's side. The session's secret goes
  // only to the server's user, by numbers that mean the same on both sides.
  if (welcomed.user_namespace == 0 || welcomed.user_namespace != UserNamespace()) {
    return std::nullopt;
  }
  const uint32_t server = welcomed.server_uid;
  // Tried first, so that no working connection is given up for nothing.
  absl::Status there = ConnectUnix(welcomed.unix_socket, server).status();
  if (there.ok()) there = LocalServer(endpoint).CheckSocket(welcomed.unix_socket, server);
  if (absl::IsPermissionDenied(there)) {
    LogWarning("the session stays where it is: ", std::string(there.message()));
  }
  if (!there.ok()) return std::nullopt;
  return DialTarget{absl::StrCat("unix:", welcomed.unix_socket), server};
}

}  // namespace warpline::stub
