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
#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/relay.pb.h"
#include "server/jail/jail.h"
#include "server/relay/bulk/bulk_server.h"
#include "server/relay/relay.h"
#include "transport/channel_loop.h"
#include "transport/shm/shm_connect.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_end.h"
#include "transport/tls/tls_stream.h"
#include "transport/ucx/ucx_end.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline::relay {
namespace {

using warpline_internal::FromRelay;
using warpline_internal::PrepareRelay;
using warpline_internal::RelayPrepared;
using warpline_internal::ToRelay;
using warpline_internal::UcxChecked;

// For the client to come, and for the server to answer the connection.
constexpr absl::Duration kPatience = absl::Seconds(10);

// Where a relay listens.
struct Doors {
  std::unique_ptr<UcxEnd> ucx;  // Null with TLS.
  UniqueFd tcp;                 // Over UCX invalid where there is no port left for it.
};

// Loads what is loaded at run time, while it may be read.
absl::Status LoadLibraries(bool ucx) { return ucx ? UcxEnd::Load() : TlsStream::Load(); }

absl::StatusOr<Doors> Listen(const PrepareRelay& prepare, const std::string& own_ip,
                             RelayPrepared* prepared) {
  const uint32_t first = prepare.first_port(), last = prepare.last_port();
  Doors doors;
  std::string ip = own_ip;
  if (prepare.ucx()) {
    const std::string ports = last == 0 ? "" : absl::StrCat(first, "-", last);
    const auto transports = UcxTransports::ParseTold(prepare.ucx_transports());
    if (!transports.ok()) return transports.status();
    auto end = UcxEnd::Listen(prepare.peer(), ports, prepare.secret(), *transports);
    if (!end.ok()) return end.status();
    doors.ucx = *std::move(end);
    ip = doors.ucx->address().ip;
    prepared->set_address(doors.ucx->address().ToString());
  }
  auto tcp = ListenForBulk(ip, first, last);
  const auto address = tcp.ok() ? SocketAddress::OfSocket(tcp->get()) : tcp.status();
  if (prepare.ucx()) {
    // Without it large copies go over connections to the server.
    if (address.ok()) prepared->set_bulk_endpoint(address->ToString());
  } else {
    if (!address.ok()) return address.status();
    prepared->set_address(TlsAddress(address->ToString()));
    prepared->set_bulk_endpoint(prepared->address());
  }
  if (address.ok()) doors.tcp = *std::move(tcp);
  return doors;
}

// Opens the relay in its jail, and says in `*prepared` where it listens and what the jail holds.
absl::StatusOr<Doors> Open(const PrepareRelay& prepare, RelayPrepared* prepared) {
  const absl::Status loaded = LoadLibraries(prepare.ucx());
  if (!loaded.ok()) return loaded;
  // In the jail it connects to nothing, not even to ask for the way.
  const auto own = SocketAddress::Towards(prepare.peer());
  if (!own.ok()) return own.status();
  jail::Jail jail(prepare.jail());
  absl::Status closed = prepare.has_jail() ? jail.CloseBeforeDriver() : absl::OkStatus();
  if (!closed.ok()) return closed;
  auto doors = Listen(prepare, own->Ip(), prepared);
  if (!doors.ok()) return doors;
  closed = prepare.has_jail() ? jail.CloseBeforeTenants() : absl::OkStatus();
  if (!closed.ok()) return closed;
  *prepared->mutable_jail() = jail.report();
  return doors;
}

// Asks UCX, in a relay's jail, which transports it has.
absl::Status Check(const warpline_internal::CheckUcx& check, UcxChecked* checked) {
  const auto transports = UcxTransports::ParseTold(check.ucx_transports());
  if (!transports.ok()) return transports.status();
  const absl::Status loaded = UcxEnd::Load();
  if (!loaded.ok()) return loaded;
  jail::Jail jail(check.jail());
  absl::Status closed = check.has_jail() ? jail.CloseBeforeDriver() : absl::OkStatus();
  if (!closed.ok()) return closed;
  const absl::Status there = UcxEnd::CheckTransports(*transports);
  if (!there.ok()) return there;
  closed = check.has_jail() ? jail.CloseBeforeTenants() : absl::OkStatus();
  if (!closed.ok()) return closed;
  *checked->mutable_jail() = jail.report();
  return absl::OkStatus();
}

// Waits for the session's client.
absl::StatusOr<std::unique_ptr<AwaitedEnd>> AwaitClient(std::unique_ptr<UcxEnd> ucx,
                                                        BulkServer* tcp) {
  const absl::Time until = absl::Now() + kPatience;
  if (ucx != nullptr) {
    const LoopScope scope(&channel_loop);
    const absl::Status came = ucx->AwaitPeer(until);
    if (!came.ok()) return came;
    return ucx;
  }
  auto stream = tcp->AwaitSession(until);
  if (!stream.ok()) return stream.status();
  return TlsEnd::Create(*std::move(stream));
}

// Lets the client in where the server takes it; else the client gets the server's refusal.
absl::StatusOr<std::unique_ptr<LinkEnd>> ConnectToServer(UniqueFd socket, AwaitedEnd* client) {
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
  FromRelay answer;
  if (order.has_check_ucx()) {
    const absl::Status there = Check(order.check_ucx(), answer.mutable_ucx_checked());
    if (!there.ok()) answer.mutable_ucx_checked()->set_error(std::string(there.message()));
    return SendPacket(socket, answer, {});
  }
  if (!order.has_prepare() || fds.size() != 1) {
    return absl::InvalidArgumentError("a relay without its connection");
  }

  auto doors = Open(order.prepare(), answer.mutable_prepared());
  if (!doors.ok()) {
    answer.mutable_prepared()->set_error(std::string(doors.status().message()));
  }
  const absl::Status sent = SendPacket(socket, answer, {});
  if (!doors.ok()) return doors.status();
  if (!sent.ok()) return sent;

  // Whoever is slow at the other end must not hold up a connection.
  fcntl(socket, F_SETFL, O_NONBLOCK);
  std::optional<BulkServer> tcp;
  if (doors->tcp.valid()) {
    tcp.emplace(std::move(doors->tcp), socket, order.prepare().secret(),
                /*tls=*/doors->ucx == nullptr);
  }
  auto client = AwaitClient(std::move(doors->ucx), tcp.has_value() ? &*tcp : nullptr);
  if (!client.ok()) return client.status();
  auto server = ConnectToServer(std::move(fds[0]), client->get());
  if (!server.ok()) return server.status();
  answer.mutable_connected();
  const absl::Status told = SendPacket(socket, answer, {});
  if (!told.ok()) return told;
  std::make_unique<Relay>(*std::move(client), *std::move(server))->Run();
  return absl::OkStatus();
}

}  // namespace warpline::relay
