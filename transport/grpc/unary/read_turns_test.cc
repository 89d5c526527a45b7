#include "transport/grpc/unary/read_turns.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::grpc_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr size_t kMost = ReadTurns::kMostReading;

class ReadTurnsTest : public testing::Test {
 protected:
  // Adds calls of one peer that begin to read until no more may.
  void Fill(const char* peer) {
    for (ReadTurns::Id id = 1000; id < 1000 + kMost; ++id) {
      turns_.Add(id, peer);
      EXPECT_THAT(turns_.TakeNext(now_), Optional(id));
    }
  }

  absl::Time now_ = absl::UnixEpoch();
  ReadTurns turns_;
};

TEST_F(ReadTurnsTest, SomeReadAtATime) {
  Fill("a");
  turns_.Add(1, "a");
  EXPECT_EQ(turns_.TakeNext(now_), std::nullopt);
  turns_.Remove(1000);
  EXPECT_THAT(turns_.TakeNext(now_), Optional(1u));
  EXPECT_EQ(turns_.TakeNext(now_), std::nullopt);
}

TEST_F(ReadTurnsTest, PeersHaveTurnsAndTheNewestOfAPeerComesFirst) {
  Fill("z");
  for (ReadTurns::Id id = 1; id <= 5; ++id) turns_.Add(id, "a");
  turns_.Add(6, "b");
  turns_.Add(7, "c");
  turns_.Remove(7);
  std::vector<ReadTurns::Id> order;
  for (ReadTurns::Id gone = 1000; gone < 1004; ++gone) {
    turns_.Remove(gone);
    order.push_back(*turns_.TakeNext(now_));
  }
  EXPECT_THAT(order, ElementsAre(5, 6, 4, 3));
}

TEST_F(ReadTurnsTest, APeerThatReadsNoneWaitsForNoOtherPeer) {
  Fill("a");
  turns_.Add(1, "a");
  turns_.Add(2, "b");
  turns_.Add(3, "b");
  EXPECT_THAT(turns_.TakeNext(now_), Optional(3u));
  EXPECT_EQ(turns_.TakeNext(now_), std::nullopt);
  turns_.Remove(3);
  EXPECT_THAT(turns_.TakeNext(now_), Optional(2u));
}

TEST_F(ReadTurnsTest, PeersThatReadNoneHaveBoundedPlaces) {
  Fill("a");
  for (ReadTurns::Id id = 0; id < ReadTurns::kMostFirst; ++id) {
    turns_.Add(id, absl::StrCat("b", id));
    EXPECT_THAT(turns_.TakeNext(now_), Optional(id));
  }
  turns_.Add(500, "c");
  EXPECT_EQ(turns_.TakeNext(now_), std::nullopt);
  now_ += absl::Hours(1);
  EXPECT_EQ(turns_.TakeOverdue(now_).size(), kMost + ReadTurns::kMostFirst);
  EXPECT_THAT(turns_.TakeNext(now_), Optional(500u));
}

TEST_F(ReadTurnsTest, SilentCallsGiveWayOnlyToOthers) {
  Fill("a");
  now_ += absl::Hours(1);
  EXPECT_THAT(turns_.TakeOverdue(now_), IsEmpty());
  turns_.Add(1, "a");
  EXPECT_EQ(turns_.TakeOverdue(now_).size(), kMost);
  EXPECT_THAT(turns_.TakeNext(now_), Optional(1u));
  turns_.Add(2, "a");
  EXPECT_THAT(turns_.TakeNext(now_), Optional(2u));
  turns_.Add(3, "a");
  EXPECT_THAT(turns_.TakeOverdue(now_ + ReadTurns::kPatience), IsEmpty());
  EXPECT_THAT(turns_.TakeOverdue(now_ + 2 * ReadTurns::kPatience), ElementsAre(1, 2));
}

TEST_F(ReadTurnsTest, APeerThatReadsLittleGivesWayToNoneThatReadsMuch) {
  turns_.Add(1, "a");
  EXPECT_THAT(turns_.TakeNext(now_), Optional(1u));
  for (ReadTurns::Id id = 1000; id < 1000 + kMost; ++id) turns_.Add(id, "b");
  while (turns_.TakeNext(now_).has_value()) {
  }
  now_ += absl::Hours(1);
  EXPECT_EQ(turns_.TakeOverdue(now_).size(), kMost - 1);
  turns_.Remove(1);
}

TEST_F(ReadTurnsTest, TheOldestOfThePeerWithMostGivesWay) {
  Fill("z");
  const ReadTurns::Id most = ReadTurns::kMostWaiting;
  turns_.Add(1, "a");
  for (ReadTurns::Id id = 2; id <= most; ++id) turns_.Add(id + 10000, "b");
  EXPECT_EQ(turns_.TakeExcess(), std::nullopt);
  turns_.Add(2, "a");
  EXPECT_THAT(turns_.TakeExcess(), Optional(10002u));
  EXPECT_EQ(turns_.TakeExcess(), std::nullopt);
  turns_.Remove(1);
  turns_.Add(3, "a");
  EXPECT_EQ(turns_.TakeExcess(), std::nullopt);
}

}  // namespace
}  // namespace warpline::grpc_internal
