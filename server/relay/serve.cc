#include "server/relay/serve.h"

#include <fcntl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "proto/relay.pb.h"
#include "server/hostlink/process/packet_socket.h"
#include "server/jail/jail.h"
#include "server/relay/bulk/bulk_server.h"
#include "server/relay/relay.h"
#include "transport/bulk/socket_address.h"
#include "transport/channel_loop.h"
#include "transport/shm/shm_connect.h"
#include "transport/ucx/ucx_end.h"

namespace warpline::relay {
namespace {

using warpline_internal::FromRelay;
using warpline_internal::PrepareRelay;
using warpline_internal::RelayPrepared;
using warpline_internal::ToRelay;

// For the client to come, and for the server to answer the connection.
constexpr absl::Duration kPatience = absl::Seconds(10);

// Where a relay listens.
struct Doors {
  std::unique_ptr<UcxEnd> ucx;
  UniqueFd bulk;  // Invalid where there is no port left for it.
};

// Opens the relay in its jail, and says in `*prepared` where it listens and what the jail holds.
absl::StatusOr<Doors> Open(const PrepareRelay& prepare, RelayPrepared* prepared) {
  // While it may be read.
  const absl::Status loaded = UcxEnd::Load();
  if (!loaded.ok()) return loaded;
  jail::Jail jail(prepare.jail());
  absl::Status closed = prepare.has_jail() ? jail.CloseBeforeDriver() : absl::OkStatus();
  if (!closed.ok()) return closed;
  const uint32_t first = prepare.first_port();
  const uint32_t last = prepare.last_port();
  const std::string ports = last == 0 ? "" : absl::StrCat(first, "-", last);
  auto end = UcxEnd::Listen(prepare.peer(), ports, prepare.secret());
  if (!end.ok()) return end.status();
  auto bulk = ListenForBulk((*end)->address().ip, first, last);
  const auto bulk_address = bulk.ok() ? SocketAddress::OfSocket(bulk->get()) : bulk.status();
  closed = prepare.has_jail() ? jail.CloseBeforeTenants() : absl::OkStatus();
  if (!closed.ok()) return closed;
  prepared->set_address((*end)->address().ToString());
  *prepared->mutable_jail() = jail.report();
  // Without it large copies go over connections to the server.
  if (!bulk_address.ok()) return Doors{*std::move(end), UniqueFd()};
  prepared->set_bulk_endpoint(bulk_address->ToString());
  return Doors{*std::move(end), *std::move(bulk)};
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
  ToRelay order;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(socket, &order, &fds);
  if (!received.ok()) return received;
  if (!order.has_prepare() || fds.size() != 1) {
    return absl::InvalidArgumentError("a relay without its connection");
  }

  FromRelay answer;
  auto doors = Open(order.prepare(), answer.mutable_prepared());
  if (!doors.ok()) {
    answer.mutable_prepared()->set_error(std::string(doors.status().message()));
  }
  const absl::Status sent = SendPacket(socket, answer, {});
  if (!doors.ok()) return doors.status();
  if (!sent.ok()) return sent;

  // Whoever is slow at the other end must not hold up a connection.
  fcntl(socket, F_SETFL, O_NONBLOCK);
  std::optional<BulkServer> bulk;
  if (doors->bulk.valid()) bulk.emplace(std::move(doors->bulk), socket, order.prepare().secret());
  UcxEnd& end = *doors->ucx;
  {
    const LoopScope scope(&channel_loop);
    const absl::Status came = end.AwaitPeer(absl::Now() + kPatience);
    if (!came.ok()) return came;
  }
  auto server = ConnectToServer(std::move(fds[0]), &end);
  if (!server.ok()) return server.status();
  answer.mutable_connected();
  const absl::Status told = SendPacket(socket, answer, {});
  if (!told.ok()) return told;
  std::make_unique<Relay>(std::move(doors->ucx), *std::move(server))->Run();
  return absl::OkStatus();
}

}  // namespace warpline::relay
