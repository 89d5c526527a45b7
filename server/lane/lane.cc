#include "server/lane/lane.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "proto/lane.pb.h"
#include "server/jail/jail.h"
#include "server/lane/relay.h"
#include "server/process/packet_socket.h"
#include "transport/channel_loop.h"
#include "transport/shm/shm_connect.h"
#include "transport/ucx/ucx_end.h"

namespace warpline::lane {
namespace {

using warpline_internal::FromLane;
using warpline_internal::PrepareLane;

// For the client to come, and for the server to answer the connection.
constexpr absl::Duration kPatience = absl::Seconds(10);

// Opens the lane in its jail; `*report` gets what the jail holds, so far.
absl::StatusOr<std::unique_ptr<UcxEnd>> Open(const PrepareLane& prepare,
                                             warpline_internal::JailReport* report) {
  // While it may be read.
  const absl::Status loaded = UcxEnd::Load();
  if (!loaded.ok()) return loaded;
  jail::Jail jail(prepare.jail());
  absl::Status closed = prepare.has_jail() ? jail.CloseBeforeDriver() : absl::OkStatus();
  if (!closed.ok()) return closed;
  auto end = UcxEnd::Listen(prepare.peer(), prepare.ports(), prepare.secret());
  if (!end.ok()) return end.status();
  closed = prepare.has_jail() ? jail.CloseBeforeTenants() : absl::OkStatus();
  if (!closed.ok()) return closed;
  *report = jail.report();
  return end;
}

// Lets the client in where the server takes it; else the client gets the server's refusal.
absl::StatusOr<std::unique_ptr<LinkEnd>> ConnectToServer(UniqueFd socket, UcxEnd* client) {
  auto server = ShmConnectOn(std::move(socket), absl::Now() + kPatience);
  const LoopScope scope(&channel_loop);
  if (server.ok()) {
    client->Welcome();
  } else {
    client->PutEnd(server.status());
  }
  return server;
}

}  // namespace

absl::Status Serve(int socket) {
  PrepareLane prepare;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(socket, &prepare, &fds);
  if (!received.ok()) return received;
  if (fds.size() != 1) return absl::InvalidArgumentError("a lane without its connection");

  FromLane answer;
  auto& prepared = *answer.mutable_prepared();
  auto end = Open(prepare, prepared.mutable_jail());
  if (end.ok()) {
    prepared.set_address((*end)->address().ToString());
  } else {
    prepared.set_error(std::string(end.status().message()));
  }
  const absl::Status sent = SendPacket(socket, answer, {});
  if (!end.ok()) return end.status();
  if (!sent.ok()) return sent;

  {
    const LoopScope scope(&channel_loop);
    const absl::Status came = (*end)->AwaitPeer(absl::Now() + kPatience);
    if (!came.ok()) return came;
  }
  auto server = ConnectToServer(std::move(fds[0]), end->get());
  if (!server.ok()) return server.status();
  answer.mutable_connected();
  const absl::Status told = SendPacket(socket, answer, {});
  if (!told.ok()) return told;
  std::make_unique<Relay>(*std::move(end), *std::move(server))->Run();
  return absl::OkStatus();
}

}  // namespace warpline::lane
