#include "server/gpu_server/session/return_waits.h"

#include <string>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"

namespace warpline::server {
namespace {

class ReturnWaitsTest : public testing::Test {
 protected:
  void Add(absl::Duration most, char name) {
    waits_.Add(most, [this, name] { called_ += name; });
  }

  FakeTimers timers_;
  ReturnWaits waits_{&timers_};
  std::string called_;
};

TEST_F(ReturnWaitsTest, AreCalledOnceInTheirOrder) {
  Add(absl::Seconds(1), 'a');
  Add(absl::Seconds(1), 'b');
  EXPECT_EQ(called_, "");
  waits_.Wake();
  EXPECT_EQ(called_, "ab");
  waits_.Wake();
  EXPECT_EQ(called_, "ab");
  EXPECT_TRUE(timers_.empty());
}

TEST_F(ReturnWaitsTest, AreCalledWhenTheirTimeIsOver) {
  Add(absl::Seconds(3), 'a');
  Add(absl::Seconds(1), 'b');
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(called_, "b");
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(called_, "ba");
}

TEST_F(ReturnWaitsTest, MayWaitAgainWhenTheyAreCalled) {
  waits_.Add(absl::Seconds(1), [this] {
    called_ += 'a';
    Add(absl::Seconds(1), 'b');
  });
  waits_.Wake();
  EXPECT_EQ(called_, "a");
  waits_.Wake();
  EXPECT_EQ(called_, "ab");
}

}  // namespace
}  // namespace warpline::server
