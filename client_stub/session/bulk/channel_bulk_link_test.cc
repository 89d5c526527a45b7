#include "client_stub/session/bulk/channel_bulk_link.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "client_stub/session/bulk/bulk_connections.h"
#include "client_stub/session/status/session_log.h"
#include "client_stub/session/testing/loopback_channel.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);

// The server's side of bulk connections, with memory of its own.
class ChannelBulkLinkTest : public testing::Test {
 protected:
  Dialer MakeDialer() {
    return [this](const DialTarget&, ChannelHandler* handler,
                  absl::Duration) -> absl::StatusOr<std::unique_ptr<Channel>> {
      if (!dial_.ok()) return dial_;
      return std::make_unique<LoopbackChannel>(
          handler, [this](ClientLink* link, Frame frame) { OnFrame(link, frame); });
    };
  }

  void OnFrame(ClientLink* link, const Frame& frame) {
    BulkHeader header = {};
    if (frame.kind == kBulkPut || frame.kind == kBulkGet) {
      std::memcpy(&header, frame.bytes().data(), sizeof(header));
    }
    switch (frame.kind) {
      case kBulkHello: {
        warpline_internal::BulkHello hello;
        EXPECT_TRUE(hello.ParseFromString(std::string(frame.bytes())));
        EXPECT_EQ(hello.session(), 7u);
        EXPECT_EQ(hello.secret(), "secret");
        puts_ = 0;
        return link->ToClient({kBulkReady, ""});
      }
      case kBulkMemory: {
        ++memory_asked_;
        warpline_internal::HostMemoryAnswer answer;
        answer.set_error(memory_error_);
        return link->ToClient({kBulkMemoryDone, answer.SerializeAsString()});
      }
      case kBulkPut: {
        if (lose_) return link->ServerClose(absl::UnavailableError("lost"));
        memory_.replace(header.va - BulkMemory::SlotAddress(0), header.bytes,
                        frame.bytes().substr(sizeof(header)));
        const BulkTakenBody body = {++puts_ + too_many_};
        return link->ToClient(
            {kBulkTaken, std::string(reinterpret_cast<const char*>(&body), sizeof(body))});
      }
      case kBulkGet:
        if (lose_) return link->ServerClose(absl::UnavailableError("lost"));
        return link->ToClient(
            {kBulkBytes,
             memory_.substr(header.va - BulkMemory::SlotAddress(0), header.bytes) + extra_});
      default:
        ADD_FAILURE() << "frame " << frame.kind;
    }
  }

  absl::Status Connect() { return link_.Connect(kDeadline); }

  std::string memory_ = std::string(1 << 20, '\0');
  absl::Status dial_;
  int memory_error_ = 0;
  int memory_asked_ = 0;
  uint64_t puts_ = 0;
  bool lose_ = false;
  uint64_t too_many_ = 0;  // Puts that the server says it took.
  std::string extra_;      // Bytes that nobody asked for.
  ChannelBulkLink link_{0, BulkMemory::SlotAddress(0), {}, MakeDialer(), {7, "secret"}};
};

TEST_F(ChannelBulkLinkTest, WhatIsPutIsGot) {
  EXPECT_FALSE(link_.up());
  ASSERT_TRUE(Connect().ok());
  EXPECT_TRUE(link_.up());
  const BulkTicket put = link_.Put(BulkMemory::SlotAddress(0) + 3, "some bytes");
  EXPECT_TRUE(link_.Await(put));
  char got[5] = {};
  EXPECT_TRUE(link_.Await(link_.Get(BulkMemory::SlotAddress(0) + 8, got, 4)));
  EXPECT_STREQ(got, "byte");
}

TEST_F(ChannelBulkLinkTest, ALostConnectionLosesWhatIsUnderWay) {
  ASSERT_TRUE(Connect().ok());
  const uint64_t before = link_.connection();
  const BulkTicket done = link_.Put(BulkMemory::SlotAddress(0), "one");
  ASSERT_TRUE(link_.Await(done));
  lose_ = true;
  const BulkTicket lost = link_.Put(BulkMemory::SlotAddress(0), "two");
  EXPECT_FALSE(link_.Await(lost));
  EXPECT_FALSE(link_.up());
  EXPECT_EQ(link_.connection(), 0u);
  EXPECT_FALSE(link_.Await(link_.Put(BulkMemory::SlotAddress(0), "three")));
  lose_ = false;
  ASSERT_TRUE(Connect().ok());
  EXPECT_EQ(memory_asked_, 1);  // It has it still.
  EXPECT_NE(link_.connection(), before);
  // Of the former connection, whose numbers begin anew.
  EXPECT_FALSE(link_.Await(lost));
  EXPECT_TRUE(link_.Await(link_.Put(BulkMemory::SlotAddress(0), "four")));
  EXPECT_EQ(memory_.substr(0, 5), std::string("four\0", 5));
}

TEST_F(ChannelBulkLinkTest, WhereTheServerHasNoMemoryItIsNotAskedAgain) {
  memory_error_ = 2;
  const absl::Status status = Connect();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_FALSE(link_.up());
}

TEST_F(ChannelBulkLinkTest, AServerThatAnswersWronglyIsLeft) {
  ASSERT_TRUE(Connect().ok());
  too_many_ = 1;
  EXPECT_FALSE(link_.Await(link_.Put(BulkMemory::SlotAddress(0), "x")) && link_.up());
  too_many_ = 0;
  ASSERT_TRUE(Connect().ok());
  extra_ = "more";
  char got[8] = "1234567";
  EXPECT_FALSE(link_.Await(link_.Get(BulkMemory::SlotAddress(0), got, 2)));
  EXPECT_STREQ(got, "1234567");
  EXPECT_FALSE(link_.up());
}

TEST_F(ChannelBulkLinkTest, AFailedDialIsItsStatus) {
  dial_ = absl::UnavailableError("nobody there");
  EXPECT_EQ(Connect(), dial_);
  EXPECT_FALSE(link_.up());
  dial_ = absl::OkStatus();
  EXPECT_TRUE(Connect().ok());
  link_.Stop();
  EXPECT_FALSE(Connect().ok());
}

class BulkConnectionsTest : public ChannelBulkLinkTest {
 protected:
  void Start() {
    connections_.Start([this](uint32_t slot, uint64_t va) {
      return std::make_unique<ChannelBulkLink>(slot, va, DialTarget(), MakeDialer(),
                                               BulkIdentity{7, "secret"});
    });
    connections_.Offer(true);
  }
  void AwaitReady(uint32_t wanted, uint32_t ready) {
    const absl::Time end = absl::Now() + kDeadline;
    while (connections_.Ready(wanted) != ready && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(connections_.Ready(wanted), ready);
  }

  LogBudget log_{kSessionLines, "session"};
  Counters counters_;
  BulkConnections connections_{0, &log_, &counters_};
};

TEST_F(BulkConnectionsTest, AsManyAreConnectedAsAreWanted) {
  EXPECT_EQ(connections_.Ready(4), 0u);  // The server has not offered any.
  EXPECT_FALSE(connections_.Connecting());
  Start();
  EXPECT_EQ(connections_.Ready(0), 0u);
  EXPECT_EQ(memory_asked_, 0);
  AwaitReady(2, 2);
  EXPECT_EQ(memory_asked_, 2);
  EXPECT_TRUE(connections_.Await(0, connections_.Put(0, BulkMemory::SlotAddress(0), "abc")));
  EXPECT_EQ(counters_.bulk_bytes.load(), 3u);
}

TEST_F(BulkConnectionsTest, LostOnesComeBack) {
  Start();
  AwaitReady(1, 1);
  lose_ = true;
  EXPECT_FALSE(connections_.Await(0, connections_.Put(0, BulkMemory::SlotAddress(0), "abc")));
  lose_ = false;
  AwaitReady(1, 1);
  EXPECT_TRUE(connections_.Await(0, connections_.Put(0, BulkMemory::SlotAddress(0), "abc")));
}

TEST_F(BulkConnectionsTest, AfterTheEndThereAreNone) {
  Start();
  AwaitReady(1, 1);
  connections_.Close();
  EXPECT_EQ(connections_.Ready(1), 0u);
  EXPECT_FALSE(connections_.Await(0, connections_.Put(0, BulkMemory::SlotAddress(0), "abc")));
}

}  // namespace
}  // namespace warpline::stub
