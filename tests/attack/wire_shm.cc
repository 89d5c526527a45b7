// Attacks on the way through shared memory (transport/shm): what a client may write where the
// server or its worker reads, and connections that say nothing.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/packets/packet_socket.h"
#include "common/process_identity.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/server_options.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "transport/shm/shm_packets.h"
#include "transport/shm_board.h"
#include "transport/shm_ring_map.h"
#include "transport/unix_connect.h"

namespace warpline::attack {
namespace {

using shm_internal::ConnectionRings;

// A connection whose rings are the attacker's to write. The server has taken it.
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
  const auto most = static_cast<size_t>(server::SessionLimits().strangers_per_peer);
  struct Silent {
    UniqueFd socket;
    std::optional<absl::Status> end;
  };
  std::vector<Silent> silent;
  while (silent.size() < most + 16) {
    auto connection = Connect(*name);
    if (!connection.ok()) return Unprepared(connection.status());
    silent.push_back({std::move(connection->socket), std::nullopt});
  }
  return JudgeSilent(target, "silent clients", silent.size(), most, [&](size_t number) {
    Silent& client = silent[number];
    if (client.end.has_value()) return client.end;
    const auto last_word = shm_internal::Receive(client.socket.get());
    if (!last_word.ok()) client.end = last_word.status();
    if (last_word.ok() && last_word->has_value()) client.end = (*last_word)->status;
    return client.end;
  });
}

// The board of a session, mapped.
absl::StatusOr<std::unique_ptr<BoardMap>> BoardOf(const warpline_internal::Welcome& welcome) {
  auto socket = ConnectAbstract(welcome.host_memory_socket(), std::nullopt);
  if (!socket.ok()) return socket.status();
  warpline_internal::HostMemoryRequest request;
  request.set_session(welcome.session());
  request.set_secret(welcome.secret());
  request.set_board(true);
  absl::Status status = SendPacket(socket->get(), request, {});
  if (!status.ok()) return status;
  pollfd entry = {socket->get(), POLLIN, 0};
  if (poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) != 1) {
    return absl::DeadlineExceededError("no answer about the board");
  }
  warpline_internal::HostMemoryAnswer answer;
  std::vector<UniqueFd> board;
  status = ReceivePacket(socket->get(), &answer, &board);
  if (!status.ok()) return status;
  if (board.empty()) return absl::NotFoundError("no board came");
  return BoardMap::Map(board[0].get());
}

// Writes into all of the board, again and again, while the worker does.
WireResult BoardOfGarbage(const WireTarget& target) {
  warpline_internal::Hello hello = HonestHello();
  hello.set_features(hello.features() | kFeatureBoard);
  hello.set_boot_id(BootId());
  auto session = WireSession::OpenWith(target, hello);
  if (!session.ok()) return Unprepared(session.status());
  const warpline_internal::Welcome& welcome = (*session)->welcome();
  if ((welcome.features() & kFeatureBoard) == 0 || welcome.host_memory_socket().empty()) {
    return NotHere("the worker shares no board with its client");
  }
  const auto board = BoardOf(welcome);
  if (!board.ok()) return Unprepared(board.status());
  std::atomic<bool> done{false};
  std::thread scribbler([&] {
    uint64_t value = 1;
    while (!done.load()) {
      for (uint64_t key = 0; key < 4096; ++key) {
        BoardEntry& at = (*board)->At(key);
        value = value * 6364136223846793005u + 1442695040888963407u;
        for (auto* word : {&at.version, &at.key, &at.number, &at.after, &at.generation}) {
          word->store(value | 1);
        }
        at.wanted.store(key % 2 == 0 ? 1 : value);
      }
    }
  });
  int answered = 0;
  absl::Status ended;
  for (; answered < 3000 && ended.ok(); ++answered) {
    const absl::StatusOr<int> synced = (*session)->Call(cmd::ContextSync{});
    if (!synced.ok()) ended = synced.status();
  }
  done.store(true);
  scribbler.join();
  if (!ended.ok()) {
    return Succeeded(absl::StrCat("after ", answered, " waits: ", ended.ToString()));
  }
  return JudgeNeighbour(target, absl::StrCat(answered, " waits on a board of garbage"));
}

constexpr WireAttack kAttacks[] = {
    {"frame_longer_than_its_shared_ring", "-", "", &LongFrame},
    {"shared_ring_with_an_impossible_index", "-", "", &ImpossibleIndex},
    {"silent_connections_through_shared_memory", "H5", "", &SilentConnections},
    {"board_of_garbage", "-", "", &BoardOfGarbage},
};

}  // namespace

absl::Span<const WireAttack> SharedMemoryAttacks() { return kAttacks; }

}  // namespace warpline::attack
