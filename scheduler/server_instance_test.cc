#include "scheduler/server_instance.h"

#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(5);

class ServerInstanceTest : public testing::Test {
 protected:
  // Whether the report is taken, which is then noted.
  bool Reports(uint64_t instance, const std::string& endpoint, bool goodbye = false) {
    const bool takes = instance_.Takes(instance, endpoint, now_, kSilence);
    if (takes) instance_.Note(instance, endpoint, goodbye, now_);
    return takes;
  }

  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  ServerInstance instance_;
};

TEST_F(ServerInstanceTest, WhileOneReportsNoOtherIsTaken) {
  EXPECT_TRUE(Reports(1, "a:1"));
  EXPECT_FALSE(Reports(2, "b:1"));
  now_ += kSilence / 2;
  EXPECT_TRUE(Reports(1, "a:1"));
  now_ += kSilence - absl::Milliseconds(1);
  EXPECT_FALSE(Reports(2, "b:1"));
  EXPECT_EQ(instance_.endpoint(), "a:1");
}

TEST_F(ServerInstanceTest, ARestartAtTheSameEndpointIsTakenAtOnce) {
  EXPECT_TRUE(Reports(1, "a:1"));
  EXPECT_TRUE(Reports(2, "a:1"));
  // If the former one lives all the same, they do not take turns.
  EXPECT_FALSE(Reports(1, "a:1"));
  EXPECT_TRUE(Reports(2, "a:1"));
  now_ += kSilence;
  EXPECT_TRUE(Reports(1, "a:1"));
  EXPECT_FALSE(Reports(2, "a:1"));
}

TEST_F(ServerInstanceTest, AfterAGoodbyeAnotherIsTakenAtOnce) {
  EXPECT_TRUE(Reports(1, "a:1", /*goodbye=*/true));
  EXPECT_TRUE(Reports(2, "b:1"));
  EXPECT_FALSE(Reports(1, "a:1"));
}

TEST_F(ServerInstanceTest, AfterTheSilenceAnotherIsTaken) {
  EXPECT_TRUE(Reports(1, "a:1"));
  now_ += kSilence;
  EXPECT_TRUE(Reports(2, "b:1"));
  EXPECT_FALSE(Reports(1, "a:1"));
}

TEST_F(ServerInstanceTest, VersionsWithoutANumberAreTaken) {
  EXPECT_TRUE(Reports(0, "a:1"));
  EXPECT_TRUE(Reports(0, "b:1"));
  EXPECT_TRUE(Reports(1, "c:1"));
  EXPECT_TRUE(Reports(0, "a:1"));
}

TEST_F(ServerInstanceTest, OfManyRestartsTheLatestAreKnown) {
  for (uint64_t i = 1; i < 100; ++i) EXPECT_TRUE(Reports(i, "a:1"));
  EXPECT_FALSE(Reports(98, "a:1"));
  EXPECT_FALSE(Reports(98, "b:1"));
}

}  // namespace
}  // namespace warpline::scheduler
