#include "client_stub/session/opening/other_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client_stub/session/connection/local_server.h"
#include "common/log/log.h"
#include "common/process_identity.h"
#include "transport/shm/shm_address.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

bool IsLoopback(const std::string& endpoint) {
  return absl::StartsWith(endpoint, "127.") || absl::StartsWith(endpoint, "localhost:") ||
         absl::StartsWith(endpoint, "[::1]:");
}

bool IsUnix(const std::string& endpoint) { return absl::StartsWith(endpoint, "unix:"); }

// Both are tried first, so that no working connection is given up for nothing. In a container they
// may lead elsewhere than on the server's side, and the session's secret goes only to the server's
// user.
absl::Status ProbeShm(const Welcomed& welcomed, const std::string& endpoint) {
  absl::Status there = ConnectAbstract(welcomed.shm_name, welcomed.server_uid).status();
  if (!there.ok()) return there;
  return LocalServer(endpoint).Check(absl::StrCat("@", welcomed.shm_name), welcomed.server_uid);
}

absl::Status ProbeUnix(const Welcomed& welcomed, const std::string& endpoint) {
  absl::Status there = ConnectUnix(welcomed.unix_socket, welcomed.server_uid).status();
  if (!there.ok()) return there;
  return LocalServer(endpoint).CheckSocket(welcomed.unix_socket, welcomed.server_uid);
}

}  // namespace

std::optional<DialTarget> DirectAddress(const std::string& endpoint) {
  for (const std::string& address : ShmAddressesAt(endpoint)) {
    const auto name = ShmName(address);
    const auto there = name.ok() ? ConnectAbstract(*name, std::nullopt) : name.status();
    const auto uid = there.ok() ? ListenerOf(there->get()) : there.status();
    if (!uid.ok()) continue;
    const absl::Status server = LocalServer(endpoint).Check(absl::StrCat("@", *name), *uid);
    if (server.ok()) return DialTarget{address, *uid};
    LogWarning("the session is opened over TCP: ", std::string(server.message()));
  }
  return std::nullopt;
}

std::optional<DialTarget> OtherAddress(const Welcomed& welcomed, const std::string& endpoint) {
  if (welcomed.boot_id != BootId()) return std::nullopt;
  // Numbers of users mean the same on both sides.
  if (welcomed.user_namespace == 0 || welcomed.user_namespace != UserNamespace()) {
    return std::nullopt;
  }
  absl::Status there = absl::NotFoundError("no other address");
  if (!welcomed.shm_name.empty() && (IsLoopback(endpoint) || IsUnix(endpoint))) {
    there = ProbeShm(welcomed, endpoint);
    if (there.ok()) {
      return DialTarget{absl::StrCat("shm://", welcomed.shm_name), welcomed.server_uid};
    }
  }
  if (!welcomed.unix_socket.empty() && IsLoopback(endpoint)) {
    there = ProbeUnix(welcomed, endpoint);
    if (there.ok()) {
      return DialTarget{absl::StrCat("unix:", welcomed.unix_socket), welcomed.server_uid};
    }
  }
  if (absl::IsPermissionDenied(there)) {
    LogWarning("the session stays where it is: ", std::string(there.message()));
  }
  return std::nullopt;
}

}  // namespace warpline::stub
