#include "server/relay/bulk/bulk_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/relay.pb.h"
#include "proto/session.pb.h"
#include "transport/bulk/bulk_socket.h"
#include "transport/tcp/connect.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_hello.h"
#include "transport/tls/tls_stream.h"

namespace warpline::relay {
namespace {

using warpline_internal::FromRelay;
using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;
using warpline_internal::ToRelay;

constexpr char kSecret[] = "0123456789abcdef";
constexpr uint64_t kVa = uint64_t{1} << 46;
constexpr uint64_t kBytes = 1u << 20;

template <typename Body>
std::string BytesOf(const Body& body) {
  return {reinterpret_cast<const char*>(&body), sizeof(body)};
}

// The server that a relay asks, and its client: in plain text, or with TLS.
class BulkServerTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto sockets = PacketSocketPair();
    ASSERT_TRUE(sockets.ok());
    server_ = std::move(sockets->first);
    relays_ = std::move(sockets->second);
    fcntl(relays_.get(), F_SETFL, O_NONBLOCK);
    auto listening = ListenForBulk("127.0.0.1", 0, 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    place_ = SocketAddress::OfSocket(listening->get())->ToString();
    endpoint_ = GetParam() ? TlsAddress(place_) : place_;
    bulk_ = std::make_unique<BulkServer>(*std::move(listening), relays_.get(), kSecret, GetParam());
    auto memory = NewSealedMemory("test", kBytes);
    ASSERT_TRUE(memory.ok());
    memory_ = *std::move(memory);
    mapped_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
  }
  void TearDown() override { munmap(mapped_, kBytes); }

  absl::StatusOr<std::unique_ptr<BulkSocket>> TryConnect(const std::string& secret, uint32_t slot) {
    return BulkSocket::Connect(endpoint_, secret, slot, absl::Now() + absl::Seconds(60),
                               BulkSocket::Unreachable::kRefuse);
  }
  std::unique_ptr<BulkSocket> Connect() {
    auto socket = TryConnect(kSecret, 0);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }
  // A connection that says nothing.
  UniqueFd ConnectSilently() {
    auto fd = ConnectTcp(place_, absl::Now() + absl::Seconds(60));
    EXPECT_TRUE(fd.ok()) << fd.status();
    return *std::move(fd);
  }

  static void Ask(BulkSocket* socket, uint64_t va, uint64_t bytes) {
    HostMemoryRequest request;
    request.set_va(va);
    request.set_bytes(bytes);
    EXPECT_TRUE(socket->Send(kBulkMemory, request.SerializeAsString(), {}).ok());
  }
  // Returns the relay's next request to its server.
  FromRelay Asked() {
    FromRelay asked;
    EXPECT_TRUE(ReceivePacket(server_.get(), &asked, nullptr).ok());
    return asked;
  }
  void Answer(uint32_t slot, int error, int fd) {
    ToRelay message;
    message.mutable_memory()->set_slot(slot);
    message.mutable_memory()->mutable_answer()->set_error(error);
    const absl::Span<const int> fds =
        fd < 0 ? absl::Span<const int>() : absl::Span<const int>(&fd, 1);
    EXPECT_TRUE(SendPacket(server_.get(), message, fds).ok());
  }
  // The error of the relay's answer to its client; none when it has ended the connection.
  static std::optional<int> Answered(BulkSocket* socket) {
    HostMemoryAnswer answer;
    const auto payload = Receive(socket, kBulkMemoryDone);
    if (!payload.has_value() || !answer.ParseFromString(*payload)) return std::nullopt;
    return answer.error();
  }
  std::unique_ptr<BulkSocket> ConnectWithMemory() {
    auto socket = Connect();
    Ask(socket.get(), kVa, kBytes);
    EXPECT_EQ(Asked().memory().bytes(), kBytes);
    Answer(0, 0, memory_.get());
    EXPECT_EQ(Answered(socket.get()), 0);
    return socket;
  }

  static std::optional<std::string> Receive(BulkSocket* socket, uint32_t kind) {
    BulkFrameHeader frame;
    if (!socket->Receive(&frame, sizeof(frame)).ok()) return std::nullopt;
    EXPECT_EQ(frame.kind, kind);
    std::string payload(frame.bytes, '\0');
    EXPECT_TRUE(socket->Receive(payload.data(), payload.size()).ok());
    return payload;
  }
  // That the relay has ended the connection, having said nothing.
  static void ExpectEnded(BulkSocket* socket) {
    ASSERT_TRUE(socket->AwaitReadable(absl::Now() + absl::Seconds(60)));
    char byte;
    EXPECT_FALSE(socket->Receive(&byte, 1).ok());
  }

  UniqueFd server_;
  UniqueFd relays_;
  UniqueFd memory_;
  char* mapped_ = nullptr;
  std::string place_;
  std::string endpoint_;
  std::unique_ptr<BulkServer> bulk_;
};

INSTANTIATE_TEST_SUITE_P(Both, BulkServerTest, testing::Bool(),
                         [](const auto& of) { return std::string(of.param ? "Tls" : "Plain"); });

class SessionConnectionTest : public BulkServerTest {
 protected:
  std::unique_ptr<TlsStream> ConnectSession() {
    auto stream = TlsStream::Create(ConnectSilently(), TlsStream::Role::kConnects, kSecret);
    EXPECT_TRUE(stream.ok());
    EXPECT_EQ((*stream)->AwaitHandshake(absl::Now() + absl::Seconds(60)), absl::OkStatus());
    const TlsHello hello = {kSessionSlot, 0};
    EXPECT_TRUE((*stream)->Write(&hello, sizeof(hello)).ok());
    return *std::move(stream);
  }
};

INSTANTIATE_TEST_SUITE_P(Tls, SessionConnectionTest, testing::Values(true));

TEST_P(SessionConnectionTest, TheSessionsOwnComesOnce) {
  EXPECT_TRUE(absl::IsUnavailable(bulk_->AwaitSession(absl::Now()).status()));
  const auto stream = ConnectSession();
  const auto server = bulk_->AwaitSession(absl::Now() + absl::Seconds(60));
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->Write("hello", 5).ok());
  char byte = 0;
  EXPECT_NE(PollSocket(stream->fd(), POLLIN, 60'000), 0);
  EXPECT_EQ(*stream->Read(&byte, 1), 1u);
  // A second one is sent away.
  const auto second = ConnectSession();
  EXPECT_NE(PollSocket(second->fd(), POLLIN, 60'000), 0);
  EXPECT_FALSE(second->Read(&byte, 1).ok());
  EXPECT_TRUE(absl::IsUnavailable(bulk_->AwaitSession(absl::Now()).status()));
  // Bulk connections come beside it.
  ConnectWithMemory();
}

TEST_P(BulkServerTest, BytesGoToTheSessionsMemoryAndBack) {
  auto socket = ConnectWithMemory();
  const std::string bytes(kMaxBulkPiece, 'p');
  EXPECT_TRUE(socket->Send(kBulkPut, BytesOf(BulkHeader{kVa + 7, bytes.size()}), bytes).ok());
  EXPECT_EQ(Receive(socket.get(), kBulkTaken), BytesOf(BulkTakenBody{1}));
  EXPECT_EQ(mapped_[6], '\0');
  EXPECT_EQ(std::memcmp(mapped_ + 7, bytes.data(), bytes.size()), 0);
  mapped_[8] = 'g';
  EXPECT_TRUE(socket->Send(kBulkGet, BytesOf(BulkHeader{kVa + 7, 3}), {}).ok());
  EXPECT_EQ(Receive(socket.get(), kBulkBytes), "pgp");
  uint64_t moved = 0;
  while (moved < bytes.size() + 3) moved += Asked().moved().bytes();
  EXPECT_EQ(moved, bytes.size() + 3);
}

TEST_P(BulkServerTest, WhoDoesNotShowTheSecretIsSentAway) {
  for (const std::string& secret : {std::string("0123456789abcdeF"), std::string(16, '\0')}) {
    const auto socket = TryConnect(secret, 0);
    if (socket.ok()) ExpectEnded(socket->get());
  }
  const auto of_no_slot = TryConnect(kSecret, kMaxBulkConnections);
  ASSERT_TRUE(of_no_slot.ok());
  ExpectEnded(of_no_slot->get());
  // A connection that says nothing is ended, too.
  const UniqueFd silent = ConnectSilently();
  EXPECT_NE(PollSocket(silent.get(), POLLIN, 60'000), 0);
  char byte;
  EXPECT_EQ(recv(silent.get(), &byte, 1, 0), 0);
}

TEST_P(BulkServerTest, ManyStrangersKeepNobodyOut) {
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < 4 * BulkServer::kMostStrangers; ++i) {
    strangers.push_back(ConnectSilently());
  }
  ConnectWithMemory();
}

TEST_P(BulkServerTest, WhatIsNoFrameEndsItsConnectionAlone) {
  auto sound = ConnectWithMemory();
  const std::string some(16, 's');
  const std::string much(kMaxBulkPiece + 1, 'm');
  const struct {
    uint32_t kind;
    std::string head;
    std::string bytes;
  } kWrong[] = {
      {kBulkPut, BytesOf(BulkHeader{kVa + kBytes - 15, 16}), some},
      {kBulkPut, BytesOf(BulkHeader{kVa - 1, 16}), some},
      {kBulkPut, BytesOf(BulkHeader{~uint64_t{0} - 7, 16}), some},
      {kBulkPut, BytesOf(BulkHeader{kVa, 17}), some},
      {kBulkPut, BytesOf(BulkHeader{kVa, ~uint64_t{0}}), some},
      {kBulkPut, BytesOf(BulkHeader{kVa, 0}), ""},
      {kBulkPut, BytesOf(BulkHeader{kVa, much.size()}), much},
      {kBulkPut, "short", ""},
      {kBulkGet, BytesOf(BulkHeader{kVa + kBytes, 1}), ""},
      {kBulkGet, BytesOf(BulkHeader{kVa, kMaxBulkPiece + 1}), ""},
      {kBulkGet, BytesOf(BulkHeader{kVa, 0}), ""},
      {kBulkGet, BytesOf(BulkHeader{kVa, 1}), "more"},
      {kBulkMemory, "\xff\xff\xff", ""},
      {kBulkMemory, "", much},
      {kBulkBytes, "", some},
      {0xffffffff, "", some},
  };
  for (const auto& wrong : kWrong) {
    auto socket = *TryConnect(kSecret, 1);
    Ask(socket.get(), kVa, kBytes);
    // The slot has its memory from the first time on.
    if (&wrong == &kWrong[0]) {
      EXPECT_EQ(Asked().memory().slot(), 1u);
      Answer(1, 0, memory_.get());
    }
    EXPECT_EQ(Answered(socket.get()), 0);
    // It may be ended before all of it is sent.
    (void)socket->Send(wrong.kind, wrong.head, wrong.bytes);
    ExpectEnded(socket.get());
  }
  EXPECT_EQ(mapped_[0], '\0');
  EXPECT_TRUE(sound->Send(kBulkGet, BytesOf(BulkHeader{kVa, 4}), {}).ok());
  EXPECT_EQ(Receive(sound.get(), kBulkBytes), std::string(4, '\0'));
}

TEST_P(BulkServerTest, NothingIsReachedWithoutMemory) {
  auto socket = Connect();
  EXPECT_TRUE(socket->Send(kBulkGet, BytesOf(BulkHeader{kVa, 4}), {}).ok());
  ExpectEnded(socket.get());
}

TEST_P(BulkServerTest, WhatTheServerRefusesMayBeAskedForAgain) {
  auto socket = Connect();
  Ask(socket.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  Answer(0, 2, -1);
  EXPECT_EQ(Answered(socket.get()), 2);
  Ask(socket.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  Answer(0, 0, memory_.get());
  EXPECT_EQ(Answered(socket.get()), 0);
  Ask(socket.get(), kVa, 2 * kBytes);
  ExpectEnded(socket.get());
}

TEST_P(BulkServerTest, AConnectionTakesTheSlotOfOneThatWaits) {
  auto first = Connect();
  Ask(first.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  auto second = Connect();
  ExpectEnded(first.get());
  // What was asked for is answered to whoever asks for the same.
  Ask(second.get(), kVa, kBytes);
  Answer(0, 0, memory_.get());
  EXPECT_EQ(Answered(second.get()), 0);
}

TEST_P(BulkServerTest, MemoryThatMayShrinkOrIsTooSmallIsNotMapped) {
  auto socket = Connect();
  Ask(socket.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  const UniqueFd loose(memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(loose.get(), kBytes), 0);
  Answer(0, 0, loose.get());
  // Nor does anybody wait for what this server says from then on.
  ExpectEnded(socket.get());
}

TEST_P(BulkServerTest, ItEndsWhileSomebodyWaits) {
  auto socket = Connect();
  Ask(socket.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  bulk_ = nullptr;
  ExpectEnded(socket.get());
}

TEST(ListenForBulkTest, OnePortOfSome) {
  const auto first = ListenForBulk("127.0.0.1", 24690, 24691);
  const auto second = ListenForBulk("127.0.0.1", 24690, 24691);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(SocketAddress::OfSocket(first->get())->ToString(),
            SocketAddress::OfSocket(second->get())->ToString());
  const auto third = ListenForBulk("127.0.0.1", 24690, 24691);
  EXPECT_TRUE(absl::IsUnavailable(third.status())) << third.status();
  EXPECT_FALSE(ListenForBulk("192.0.2.1", 0, 0).ok());
  EXPECT_FALSE(ListenForBulk("rack7", 0, 0).ok());
}

}  // namespace
}  // namespace warpline::relay
