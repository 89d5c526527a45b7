#include "server/relay/bulk/bulk_server.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/relay.pb.h"
#include "proto/session.pb.h"
#include "server/hostlink/process/packet_socket.h"
#include "transport/bulk/bulk_socket.h"
#include "transport/bulk/socket_address.h"

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

// The server that a relay asks, and its client.
class BulkServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto sockets = PacketSocketPair();
    ASSERT_TRUE(sockets.ok());
    server_ = std::move(sockets->first);
    relays_ = std::move(sockets->second);
    fcntl(relays_.get(), F_SETFL, O_NONBLOCK);
    auto listening = ListenForBulk("127.0.0.1", 0, 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    endpoint_ = SocketAddress::OfSocket(listening->get())->ToString();
    bulk_ = std::make_unique<BulkServer>(*std::move(listening), relays_.get(), kSecret);
    auto memory = NewSealedMemory("test", kBytes);
    ASSERT_TRUE(memory.ok());
    memory_ = *std::move(memory);
    mapped_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
  }
  void TearDown() override { munmap(mapped_, kBytes); }

  std::unique_ptr<BulkSocket> Connect(const std::string& secret = kSecret, uint32_t slot = 0) {
    auto socket = BulkSocket::Connect(endpoint_, absl::Now() + absl::Seconds(60),
                                      BulkSocket::Unreachable::kRefuse);
    EXPECT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE((*socket)->SendHello(secret, slot).ok());
    return *std::move(socket);
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
  std::string endpoint_;
  std::unique_ptr<BulkServer> bulk_;
};

TEST_F(BulkServerTest, BytesGoToTheSessionsMemoryAndBack) {
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

TEST_F(BulkServerTest, WhoDoesNotShowTheSecretIsSentAway) {
  for (const std::string& secret : {std::string("0123456789abcdeF"), std::string(16, '\0')}) {
    ExpectEnded(Connect(secret).get());
  }
  ExpectEnded(Connect(kSecret, kMaxBulkConnections).get());
  // Nor who says nothing.
  auto silent = BulkSocket::Connect(endpoint_, absl::Now() + absl::Seconds(60),
                                    BulkSocket::Unreachable::kRefuse);
  ASSERT_TRUE(silent.ok());
  ExpectEnded(silent->get());
}

TEST_F(BulkServerTest, ManyStrangersKeepNobodyOut) {
  std::vector<std::unique_ptr<BulkSocket>> strangers;
  for (size_t i = 0; i < 4 * BulkServer::kMostStrangers; ++i) {
    auto stranger = BulkSocket::Connect(endpoint_, absl::Now() + absl::Seconds(60),
                                        BulkSocket::Unreachable::kRefuse);
    ASSERT_TRUE(stranger.ok()) << stranger.status();
    strangers.push_back(*std::move(stranger));
  }
  ConnectWithMemory();
}

TEST_F(BulkServerTest, WhatIsNoFrameEndsItsConnectionAlone) {
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
    auto socket = Connect(kSecret, 1);
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

TEST_F(BulkServerTest, NothingIsReachedWithoutMemory) {
  auto socket = Connect();
  EXPECT_TRUE(socket->Send(kBulkGet, BytesOf(BulkHeader{kVa, 4}), {}).ok());
  ExpectEnded(socket.get());
}

TEST_F(BulkServerTest, WhatTheServerRefusesMayBeAskedForAgain) {
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

TEST_F(BulkServerTest, AConnectionTakesTheSlotOfOneThatWaits) {
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

TEST_F(BulkServerTest, MemoryThatMayShrinkOrIsTooSmallIsNotMapped) {
  auto socket = Connect();
  Ask(socket.get(), kVa, kBytes);
  EXPECT_TRUE(Asked().has_memory());
  const UniqueFd loose(memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(loose.get(), kBytes), 0);
  Answer(0, 0, loose.get());
  // Nor does anybody wait for what this server says from then on.
  ExpectEnded(socket.get());
}

TEST_F(BulkServerTest, ItEndsWhileSomebodyWaits) {
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
