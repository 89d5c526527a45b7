// What clients may do to a listener whose memory they share: everything here is done by hand over
// the socket and in the rings.
#include "transport/shm/shm_listener.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "transport/registry/dial.h"
#include "transport/shm/shm_packets.h"
#include "transport/shm_ring.h"
#include "transport/shm_ring_map.h"
#include "transport/testing/endpoint.h"
#include "transport/unix_connect.h"

namespace warpline::shm_internal {
namespace {

using ::warpline::testing::Endpoint;
using ::warpline::testing::EndpointAcceptor;

class ShmListenerTest : public ::testing::Test {
 protected:
  ShmListenerTest()
      : name_(absl::StrCat("warpline-test-", getpid(), "-", absl::GetCurrentTimeNanos())) {}

  void Listen(ListenerOptions options = {}) {
    listener_ = std::make_unique<ShmListener>(std::move(options));
    ASSERT_EQ(listener_->Start({"shm://" + name_}, &acceptor_), absl::OkStatus());
  }

  UniqueFd Connect() {
    auto socket = ConnectAbstract(name_, std::nullopt);
    EXPECT_EQ(socket.status(), absl::OkStatus());
    return socket.ok() ? *std::move(socket) : UniqueFd();
  }

  // The next packet, within a minute.
  static absl::StatusOr<Received> Next(int socket) {
    return Await(socket, absl::Now() + absl::Seconds(60));
  }

  struct Client {
    UniqueFd socket;
    ConnectionRings rings;
  };
  Client Open() {
    Client client = {Connect(), {}};
    auto taken = Next(client.socket.get());
    EXPECT_EQ(taken.status(), absl::OkStatus());
    EXPECT_TRUE(taken.ok() && taken->rings.has_value());
    if (taken.ok() && taken->rings.has_value()) client.rings = *std::move(taken->rings);
    return client;
  }

  // The server's loop may sleep.
  static void RingTheBell(const Client& client) {
    EXPECT_EQ(write(client.rings.to_server.readable.get(), "", 1), 1);
  }

  // A client that keeps to the rules gets its frame through.
  void ExpectServed() {
    auto end = std::make_shared<Endpoint>();
    const auto handler = Endpoint::MakeHandler(end);
    auto channel = Dial({.address = "shm://" + name_}, handler.get(), {}, absl::Seconds(60));
    ASSERT_EQ(channel.status(), absl::OkStatus());
    end->Attach(channel->get());
    end->Send(7, "sound");
    const auto server = acceptor_.AwaitSession(sessions_++);
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->AwaitFrames(1).size(), 1u);
    end->Attach(nullptr);
  }

  // What `write` does to the ring to the server ends that connection and no other.
  void ExpectBrokenBy(const std::function<void(const ShmRingMap&)>& write) {
    Listen();
    const Client client = Open();
    const auto server = acceptor_.AwaitSession(sessions_++);
    ASSERT_NE(server, nullptr);
    auto map = ShmRingMap::Map(client.rings.to_server.memory.get());
    ASSERT_TRUE(map.ok());
    write(*map);
    RingTheBell(client);
    const auto closed = server->AwaitClosed();
    ASSERT_TRUE(closed.has_value());
    EXPECT_TRUE(absl::IsInvalidArgument(*closed)) << *closed;
    ExpectServed();
  }

  const std::string name_;
  EndpointAcceptor acceptor_;
  std::unique_ptr<ShmListener> listener_;
  size_t sessions_ = 0;
};

TEST_F(ShmListenerTest, ARingWithImpossibleIndexesEndsItsOwnConnection) {
  ExpectBrokenBy([](const ShmRingMap& map) { map.header()->tail.store(~uint64_t{0} - 7); });
}

TEST_F(ShmListenerTest, AFrameLongerThanAnyEndsItsOwnConnection) {
  ExpectBrokenBy([](const ShmRingMap& map) {
    const uint32_t header[] = {0xfffffff0, 2};
    std::memcpy(map.At(0), header, sizeof(header));
    map.header()->tail.store(4096);
  });
}

// The server's frames go to a ring whose reader says that it has read what was never written.
TEST_F(ShmListenerTest, AReaderThatIsAheadEndsItsOwnConnection) {
  Listen();
  const Client client = Open();
  const auto server = acceptor_.AwaitSession(sessions_++);
  ASSERT_NE(server, nullptr);
  auto map = ShmRingMap::Map(client.rings.to_client.memory.get());
  ASSERT_TRUE(map.ok());
  map->header()->head.store(uint64_t{1} << 40);
  server->SendForever(1 << 20);
  const auto closed = server->AwaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(*closed)) << *closed;
  ExpectServed();
}

// Threads that wait do the loop's work, beside a loop that parks at once.
TEST_F(ShmListenerTest, ThreadsThatDriveGetTheirFrames) {
  Listen({.channel = {.poll = absl::ZeroDuration()}});
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  auto channel = Dial({.address = "shm://" + name_}, handler.get(), {.poll = absl::ZeroDuration()},
                      absl::Minutes(4));
  ASSERT_EQ(channel.status(), absl::OkStatus());
  end->Attach(channel->get());
  const auto server = acceptor_.AwaitSession(sessions_++);
  ASSERT_NE(server, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const size_t before = end->received();
        end->Send(1, "to the server");
        server->Send(2, "to the client");
        EXPECT_TRUE(
            (*channel)->Drive([&] { return end->received() > before; }, absl::Microseconds(100)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server->AwaitFrames(900).size(), 900u);
  EXPECT_EQ(end->AwaitFrames(900).size(), 900u);
  end->Attach(nullptr);
}

TEST_F(ShmListenerTest, PacketsOfGarbageEndTheirOwnConnection) {
  Listen();
  for (const std::string& packet : {std::string("x"), std::string(4000, '\xff'), std::string()}) {
    const Client client = Open();
    const auto server = acceptor_.AwaitSession(sessions_++);
    ASSERT_NE(server, nullptr);
    ASSERT_EQ(send(client.socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(packet.size()));
    EXPECT_TRUE(server->AwaitClosed().has_value()) << packet.size();
  }
  ExpectServed();
}

TEST_F(ShmListenerTest, TheMemoryOfARingCannotBeTakenAway) {
  Listen();
  const Client client = Open();
  EXPECT_NE(ftruncate(client.rings.to_server.memory.get(), 0), 0);
  EXPECT_NE(ftruncate(client.rings.to_client.memory.get(), 0), 0);
}

TEST_F(ShmListenerTest, SilentStrangersGiveWayToTheNext) {
  Listen({.max_strangers_of_peer = 2});
  std::vector<Client> silent;
  for (int i = 0; i < 2; ++i) silent.push_back(Open());
  auto oldest = acceptor_.AwaitSession(0);
  ASSERT_NE(oldest, nullptr);
  // One that has been admitted stays.
  acceptor_.AwaitSession(1)->Admit();
  sessions_ = 2;
  for (int i = 0; i < 2; ++i) {
    silent.push_back(Open());
    ++sessions_;
  }
  EXPECT_TRUE(oldest->AwaitClosed().has_value());
  const absl::Time until = absl::Now() + absl::Seconds(60);
  while (listener_->sessions() > 3 && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(listener_->sessions(), 3);
  ExpectServed();
}

TEST_F(ShmListenerTest, MoreSessionsThanThereMayBeAreRefusedByStatus) {
  Listen({.max_sessions = 1});
  const Client client = Open();
  const UniqueFd second = Connect();
  const auto refused = Next(second.get());
  ASSERT_EQ(refused.status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(refused->status)) << refused->status;
  EXPECT_FALSE(refused->rings.has_value());
}

TEST_F(ShmListenerTest, AnotherUsersListenerIsNotConnectedTo) {
  Listen();
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  const auto channel = Dial({.address = "shm://" + name_, .listener_uid = getuid() + 1},
                            handler.get(), {}, absl::Seconds(60));
  EXPECT_TRUE(absl::IsPermissionDenied(channel.status())) << channel.status();
}

TEST_F(ShmListenerTest, NoNameIsListenedAtTwiceNorATooLongOne) {
  Listen();
  ShmListener second({});
  EXPECT_TRUE(absl::IsUnavailable(second.Start({"shm://" + name_}, &acceptor_)));
  ShmListener third({});
  EXPECT_TRUE(absl::IsInvalidArgument(third.Start({"shm://" + std::string(200, 'x')}, &acceptor_)));
}

}  // namespace
}  // namespace warpline::shm_internal
