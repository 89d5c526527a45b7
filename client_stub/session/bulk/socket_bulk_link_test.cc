#include "client_stub/session/bulk/socket_bulk_link.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client_stub/session/bulk/bulk_connections.h"
#include "client_stub/session/status/session_log.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "transport/bulk/bulk_socket.h"
#include "transport/tcp/socket_address.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr char kSecret[] = "0123456789abcdef";
constexpr uint64_t kVa = BulkMemory::SlotAddress(BulkMemory::kSlots);

// A relay with memory of its own, and what it does wrong.
class FakeRelay {
 public:
  FakeRelay() {
    const auto any = SocketAddress::Of("127.0.0.1", 0);
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), any->get(), any->size()), 0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    endpoint_ = SocketAddress::OfSocket(listener_.get())->ToString();
    acceptor_ = std::thread([this] {
      while (true) {
        UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
        if (!fd.valid()) return;
        threads_.emplace_back([this, socket = std::make_shared<BulkSocket>(
                                         std::move(fd), BulkSocket::Unreachable::kRefuse)] {
          Serve(socket.get());
          socket->Shut();
        });
      }
    });
  }
  ~FakeRelay() {
    shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }

  RelayTarget::Address address() const { return {endpoint_, kSecret}; }

  std::string memory_ = std::string(BulkMemory::kSlotBytes * BulkMemory::kSlots, '\0');
  std::atomic<int> error_{0};
  std::atomic<int> connections_{0};
  std::atomic<bool> lose_{false};      // What comes next loses the connection.
  std::atomic<uint64_t> lie_{0};       // Puts that it says it took besides.
  std::atomic<bool> too_long_{false};  // Gets bring a byte more.

 private:
  void Serve(BulkSocket* socket) {
    BulkSocketHello hello;
    if (!socket->Receive(&hello, sizeof(hello)).ok()) return;
    EXPECT_EQ(std::string(hello.secret, sizeof(hello.secret)), kSecret);
    ++connections_;
    uint64_t puts = 0;
    BulkFrameHeader frame;
    while (socket->Receive(&frame, sizeof(frame)).ok()) {
      std::string payload(frame.bytes, '\0');
      if (!socket->Receive(payload.data(), payload.size()).ok()) return;
      if (frame.kind == kBulkMemory) {
        warpline_internal::HostMemoryRequest request;
        EXPECT_TRUE(request.ParseFromString(payload));
        EXPECT_EQ(request.va(), BulkMemory::SlotAddress(BulkMemory::kSlots + hello.slot));
        warpline_internal::HostMemoryAnswer answer;
        answer.set_error(error_);
        EXPECT_TRUE(socket->Send(kBulkMemoryDone, answer.SerializeAsString(), {}).ok());
        continue;
      }
      if (lose_) return;
      BulkHeader header;
      std::memcpy(&header, payload.data(), sizeof(header));
      char* const at = memory_.data() + (header.va - kVa);
      if (frame.kind == kBulkPut) {
        std::memcpy(at, payload.data() + sizeof(header), header.bytes);
        const BulkTakenBody body = {++puts + lie_};
        if (!socket->Send(kBulkTaken, {reinterpret_cast<const char*>(&body), sizeof(body)}, {})
                 .ok()) {
          return;
        }
      } else if (!socket->Send(kBulkBytes, {}, {at, header.bytes + (too_long_ ? 1 : 0)}).ok()) {
        return;
      }
    }
  }

  UniqueFd listener_;
  std::string endpoint_;
  std::thread acceptor_;
  std::vector<std::thread> threads_;  // The acceptor's until it has ended.
};

class SocketBulkLinkTest : public testing::Test {
 protected:
  void SetUp() override { target_.Set(relay_.address()); }

  RelayTarget target_;
  FakeRelay relay_;
  SocketBulkLink link_{0, kVa, &target_};
};

TEST_F(SocketBulkLinkTest, WhatIsPutIsGot) {
  EXPECT_FALSE(link_.up());
  EXPECT_EQ(link_.connection(), 0u);
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  EXPECT_TRUE(link_.up());
  EXPECT_TRUE(link_.Await(link_.Put(kVa + 3, "some bytes")));
  char got[5] = {};
  EXPECT_TRUE(link_.Await(link_.Get(kVa + 8, got, 4)));
  EXPECT_STREQ(got, "byte");
}

TEST_F(SocketBulkLinkTest, SeveralThreadsPutAndGetMuchAtATime) {
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 40;
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      const uint64_t va = kVa + i * 2 * kMaxBulkPiece;
      const std::string bytes(kMaxBulkPiece, static_cast<char>('a' + i));
      for (size_t round = 0; round < kRounds; ++round) {
        std::array<std::string, 4> got;
        std::array<BulkTicket, 4> tickets;
        ASSERT_TRUE(link_.Await(link_.Put(va, bytes)));
        // Some gets are under way, which nobody awaits yet, while something is put.
        for (size_t k = 0; k < got.size(); ++k) {
          got[k].resize(kMaxBulkPiece);
          tickets[k] = link_.Get(va, got[k].data(), kMaxBulkPiece);
        }
        const BulkTicket put = link_.Put(va + kMaxBulkPiece, bytes);
        for (size_t k = 0; k < got.size(); ++k) {
          ASSERT_TRUE(link_.Await(tickets[k]));
          ASSERT_TRUE(got[k] == bytes);
        }
        ASSERT_TRUE(link_.Await(put));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Who cannot send receives what another thread waits for, or the other does.
TEST_F(SocketBulkLinkTest, SmallPutsGetOnBesideLargeOnes) {
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  std::atomic<bool> over{false};
  std::thread small([&] {
    while (!over) ASSERT_TRUE(link_.Await(link_.Put(kVa + 4 * kMaxBulkPiece, "x")));
  });
  const std::string bytes(kMaxBulkPiece, 'b');
  for (int i = 0; i < 100; ++i) {
    // So many that the connection has no room.
    std::array<BulkTicket, 24> tickets;
    for (BulkTicket& ticket : tickets) ticket = link_.Put(kVa, bytes);
    for (const BulkTicket& ticket : tickets) ASSERT_TRUE(link_.Await(ticket));
  }
  over = true;
  small.join();
}

TEST_F(SocketBulkLinkTest, ALostConnectionLosesWhatIsUnderWay) {
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  const uint64_t before = link_.connection();
  ASSERT_TRUE(link_.Await(link_.Put(kVa, "one")));
  relay_.lose_ = true;
  const BulkTicket lost = link_.Put(kVa, "two");
  EXPECT_FALSE(link_.Await(lost));
  EXPECT_FALSE(link_.up());
  EXPECT_EQ(link_.connection(), 0u);
  EXPECT_FALSE(link_.Await(link_.Put(kVa, "three")));
  char got[4] = "abc";
  EXPECT_FALSE(link_.Await(link_.Get(kVa, got, 3)));
  EXPECT_STREQ(got, "abc");
  relay_.lose_ = false;
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  EXPECT_NE(link_.connection(), before);
  EXPECT_FALSE(link_.Await(lost));
  EXPECT_TRUE(link_.Await(link_.Put(kVa, "four")));
  EXPECT_EQ(relay_.memory_.substr(0, 5), std::string("four\0", 5));
}

TEST_F(SocketBulkLinkTest, ARelayThatAnswersWronglyIsLeft) {
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  relay_.lie_ = 1;
  EXPECT_FALSE(link_.Await(link_.Put(kVa, "x")) && link_.up());
  relay_.lie_ = 0;
  ASSERT_TRUE(link_.Connect(kDeadline).ok());
  relay_.too_long_ = true;
  char got[8] = "1234567";
  EXPECT_FALSE(link_.Await(link_.Get(kVa, got, 2)));
  EXPECT_STREQ(got, "1234567");
  EXPECT_FALSE(link_.up());
}

TEST_F(SocketBulkLinkTest, WithoutMemoryOrARelayThereIsNoConnection) {
  relay_.error_ = 2;
  EXPECT_TRUE(absl::IsResourceExhausted(link_.Connect(kDeadline)));
  target_.Set({});
  EXPECT_TRUE(absl::IsUnavailable(link_.Connect(kDeadline)));
  EXPECT_FALSE(link_.up());
}

TEST_F(SocketBulkLinkTest, AfterItWasStoppedNothingIsConnected) {
  link_.Stop();
  EXPECT_FALSE(link_.Connect(kDeadline).ok());
}

class RelayConnectionsTest : public SocketBulkLinkTest {
 protected:
  void AwaitReady(uint32_t wanted) {
    const absl::Time end = absl::Now() + kDeadline;
    while (connections_.Ready(wanted) != wanted && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(connections_.Ready(wanted), wanted);
  }

  LogBudget log_{kSessionLines, "session"};
  Counters counters_;
  BulkConnections connections_{BulkMemory::kSlots, &log_, &counters_};
};

TEST_F(RelayConnectionsTest, NothingIsConnectedBeforeThereIsARelay) {
  connections_.Start([this](uint32_t slot, uint64_t va) {
    return std::make_unique<SocketBulkLink>(slot, va, &target_);
  });
  EXPECT_EQ(connections_.Ready(4), 0u);
  EXPECT_FALSE(connections_.Connecting());
  connections_.Offer(true);
  AwaitReady(4);
  EXPECT_EQ(relay_.connections_, 4);
  EXPECT_TRUE(connections_.Await(2, connections_.Put(2, connections_.Address(2), "abc")));
  EXPECT_EQ(relay_.memory_.substr(2 * BulkMemory::kSlotBytes, 3), "abc");
  connections_.Offer(false);
  EXPECT_EQ(connections_.Ready(4), 0u);
}

TEST_F(RelayConnectionsTest, OneThatCannotBeReachedIsNotWaitedForAgain) {
  connections_.Start([this](uint32_t slot, uint64_t va) {
    return std::make_unique<SocketBulkLink>(slot, va, &target_);
  });
  target_.Set({"127.0.0.1:1", kSecret});
  connections_.Offer(true);
  const absl::Time end = absl::Now() + kDeadline;
  EXPECT_EQ(connections_.Ready(1), 0u);
  while (connections_.Connecting() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  const absl::Time until = absl::Now() + absl::Milliseconds(1500);  // Beyond the next attempt.
  while (absl::Now() < until) {
    EXPECT_EQ(connections_.Ready(1), 0u);
    ASSERT_FALSE(connections_.Connecting());
    absl::SleepFor(absl::Milliseconds(10));
  }
}

}  // namespace
}  // namespace warpline::stub
