#include "server/gpu_server/continuity/idle_watch.h"

#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"

namespace warpline::server {
namespace {

class IdleWatchTest : public ::testing::Test {
 protected:
  IdleWatchTest() { watch_.Start(); }

  FakeTimers timers_;
  std::map<uint64_t, SessionProgress> sessions_;
  std::vector<uint64_t> idle_;
  IdleWatch watch_{absl::Seconds(80),
                   {.timers = &timers_,
                    .sessions =
                        [this] {
                          std::vector<SessionProgress> all;
                          for (const auto& [id, one] : sessions_) all.push_back(one);
                          return all;
                        },
                    .on_idle = [this](uint64_t session) { idle_.push_back(session); },
                    .now = [this] { return timers_.now(); }}};
};

TEST_F(IdleWatchTest, SessionThatDoesNothingIsToldOnce) {
  sessions_[3] = {.session = 3, .done = 7};
  timers_.Advance(absl::Seconds(80));
  EXPECT_TRUE(idle_.empty());
  timers_.Advance(absl::Seconds(10));
  EXPECT_EQ(idle_, std::vector<uint64_t>{3});
  timers_.Advance(absl::Seconds(800));
  EXPECT_EQ(idle_.size(), 1u);
}

TEST_F(IdleWatchTest, SessionThatWorksIsNot) {
  sessions_[3] = {.session = 3};
  for (int i = 0; i < 100; ++i) {
    timers_.Advance(absl::Seconds(50));
    ++sessions_[3].done;
  }
  EXPECT_TRUE(idle_.empty());
}

TEST_F(IdleWatchTest, SessionWithALongCommandIsNot) {
  sessions_[3] = {.session = 3, .done = 7, .busy = true};
  timers_.Advance(absl::Seconds(800));
  EXPECT_TRUE(idle_.empty());
  sessions_[3].busy = false;
  timers_.Advance(absl::Seconds(60));
  EXPECT_TRUE(idle_.empty());
  timers_.Advance(absl::Seconds(30));
  EXPECT_EQ(idle_.size(), 1u);
}

TEST_F(IdleWatchTest, SessionThatWorkedAgainIsToldAgain) {
  sessions_[3] = {.session = 3, .done = 7};
  timers_.Advance(absl::Seconds(100));
  ++sessions_[3].done;
  timers_.Advance(absl::Seconds(100));
  EXPECT_EQ(idle_.size(), 2u);
}

TEST_F(IdleWatchTest, SessionThatWasSuspendedBeginsAnew) {
  sessions_[3] = {.session = 3, .done = 7};
  timers_.Advance(absl::Seconds(100));
  sessions_.clear();
  timers_.Advance(absl::Seconds(100));
  sessions_[3] = {.session = 3, .done = 7};
  timers_.Advance(absl::Seconds(70));
  EXPECT_EQ(idle_.size(), 1u);
  timers_.Advance(absl::Seconds(30));
  EXPECT_EQ(idle_.size(), 2u);
}

TEST_F(IdleWatchTest, StoppedItLooksNoMore) {
  watch_.Stop();
  EXPECT_TRUE(timers_.empty());
}

}  // namespace
}  // namespace warpline::server
