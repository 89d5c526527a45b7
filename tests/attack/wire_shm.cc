// Attacks on the way through shared memory (transport/shm): what a client may write where the
// server reads, and connections that say nothing.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "transport/shm/shm_packets.h"
#include "transport/shm_ring_map.h"
#include "transport/unix_connect.h"

namespace warpline::attack {
namespace {

using shm_internal::ConnectionRings;

// A connection whose rings are the attacker's to write.
struct Connection {
  UniqueFd socket;
  ConnectionRings rings;
};

absl::StatusOr<Connection> Connect(const std::string& name) {
  auto socket = ConnectAbstract(name, std::nullopt);
  if (!socket.ok()) return socket.status();
  auto received = shm_internal::Await(socket->get(), absl::Now() + kPatience);
  if (!received.ok()) return received.status();
  if (!received->status.ok()) return received->status;
  if (!received->rings.has_value()) return absl::InternalError("no rings");
  return Connection{*std::move(socket), *std::move(received->rings)};
}

// Where the server can be reached so; empty where it cannot.
absl::StatusOr<std::string> NameOf(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return session.status();
  return (*session)->welcome().shm_name();
}

// Writes a frame's header, and where the frame is said to end, and has the server look.
WireResult WriteFrame(const WireTarget& target, uint32_t size, uint64_t tail) {
  const auto name = NameOf(target);
  if (!name.ok()) return Unprepared(name.status());
  if (name->empty()) return NotHere("the server shares no memory with its clients");
  const auto connection = Connect(*name);
  if (!connection.ok()) return Unprepared(connection.status());
  auto map = ShmRingMap::Map(connection->rings.to_server.memory.get());
  if (!map.ok()) return Unprepared(map.status());
  const uint32_t header[] = {size, kHello};
  std::memcpy(map->At(0), header, sizeof(header));
  map->header()->tail.store(tail);
  if (write(connection->rings.to_server.readable.get(), "", 1) != 1) {
    return Unprepared("no doorbell");
  }
  return JudgeNeighbour(target, absl::StrCat("a frame of ", size, " bytes that ends at ", tail));
}

WireResult LongFrame(const WireTarget& target) { return WriteFrame(target, 0xfffffff0, 4096); }
WireResult ImpossibleIndex(const WireTarget& target) {
  return WriteFrame(target, 64, ~uint64_t{0} - 7);
}

WireResult SilentConnections(const WireTarget& target) {
  const auto name = NameOf(target);
  if (!name.ok()) return Unprepared(name.status());
  if (name->empty()) return NotHere("the server shares no memory with its clients");
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    auto socket = ConnectAbstract(*name, std::nullopt);
    if (socket.ok()) silent.push_back(*std::move(socket));
  }
  const WireResult served = JudgeNeighbour(target, absl::StrCat(silent.size(), " silent clients"));
  if (served.outcome != WireOutcome::kStopped) return served;
  const auto left = std::count_if(silent.begin(), silent.end(), &IsOpen);
  const std::string detail = absl::StrCat(served.detail, ", of which ", left, " are left");
  return left <= 70 ? Stopped(detail) : Succeeded(detail);
}

constexpr WireAttack kAttacks[] = {
    {"frame_longer_than_its_shared_ring", "-", "", &LongFrame},
    {"shared_ring_with_an_impossible_index", "-", "", &ImpossibleIndex},
    {"silent_connections_through_shared_memory", "H5", "", &SilentConnections},
};

}  // namespace

absl::Span<const WireAttack> SharedMemoryAttacks() { return kAttacks; }

}  // namespace warpline::attack
