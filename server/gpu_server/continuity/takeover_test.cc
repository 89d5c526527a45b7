#include "server/gpu_server/continuity/takeover.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"

namespace warpline::server {
namespace {

class TakeoverTest : public ::testing::Test, private TakeoverEvents {
 protected:
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  // The next worker opens and takes what the session holds.
  void Succeed() {
    takeover_.OnWorkerOpened();
    holdings_.Answer(CudaResult::kSuccess);
  }
  // The worker that is there ends by itself.
  void Die(const std::string& why) {
    takeover_.OnWorkerDied(why);
    place_.Vanish();
    takeover_.OnWorkerGone();
  }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  FakeHoldings holdings_;
  int taken_over_ = 0;
  std::vector<std::string> useless_;
  std::vector<std::string> failed_;
  Takeover takeover_{&timers_, &place_, &holdings_, kTimeout, this};

 private:
  void OnNextWorkerUseless(const std::string& why) override { useless_.push_back(why); }
  void OnTakenOver() override {
    ++taken_over_;
    // Commands go through before anybody is told.
    EXPECT_FALSE(place_.frozen());
    EXPECT_FALSE(takeover_.under_way());
  }
  void OnTakeoverFailed(const std::string& why) override { failed_.push_back(why); }
};

TEST_F(TakeoverTest, NextWorkerGoesOnWhereTheFormerStopped) {
  place_.Send(7);
  place_.Complete();
  takeover_.Begin("it died", UniqueFd());
  EXPECT_TRUE(takeover_.under_way());
  EXPECT_EQ(place_.workers, 2);
  EXPECT_EQ(place_.resumed_at, 7u);
  EXPECT_TRUE(holdings_.suspended);
  place_.Send(2);
  EXPECT_EQ(place_.waiting(), 2u);
  Succeed();
  EXPECT_EQ(taken_over_, 1);
  EXPECT_FALSE(holdings_.suspended);
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_EQ(takeover_.count(), 1u);
  EXPECT_EQ(takeover_.resume_seq(), 7u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(TakeoverTest, NobodyComesBeforeTheFormerIsGone) {
  place_.ends_at_once = false;
  takeover_.Begin("replaced on request", UniqueFd());
  EXPECT_EQ(place_.kills, 1);
  // Its last words.
  takeover_.OnWorkerDied("killed");
  EXPECT_EQ(place_.workers, 1);
  place_.Vanish();
  takeover_.OnWorkerGone();
  EXPECT_EQ(place_.workers, 2);
  Succeed();
  EXPECT_EQ(taken_over_, 1);
}

TEST_F(TakeoverTest, VariablesThatWereSavedGoToTheNextWorker) {
  UniqueFd file(memfd_create("variables", MFD_CLOEXEC));
  ASSERT_EQ(write(file.get(), "4711", 4), 4);
  takeover_.Begin("replaced on request", std::move(file));
  EXPECT_EQ(place_.variables, "4711");
  // And to the one after it, if that one is lost.
  Die("SIGKILL");
  EXPECT_EQ(place_.workers, 3);
  EXPECT_EQ(place_.variables, "4711");
  Succeed();
  takeover_.Begin("it died", UniqueFd());
  EXPECT_EQ(place_.variables, "");
}

TEST_F(TakeoverTest, WorkerThatDiesWhileItTakesOverIsFollowedByAnother) {
  takeover_.Begin("it died", UniqueFd());
  Die("at its start");
  takeover_.OnWorkerOpened();
  EXPECT_EQ(holdings_.times_mapped, 1);
  Die("while it mapped");
  EXPECT_EQ(place_.workers, 4);
  EXPECT_TRUE(failed_.empty());
  Succeed();
  EXPECT_EQ(taken_over_, 1);
}

TEST_F(TakeoverTest, JournalThatKillsItsWorkersDoesNotGoOnForEver) {
  takeover_.Begin("worker died: SIGSEGV", UniqueFd());
  Die("one");
  Die("two");
  Die("three");
  EXPECT_EQ(failed_, std::vector<std::string>{"worker died: SIGSEGV; the next one died: three"});
  EXPECT_EQ(place_.workers, 4);
  EXPECT_EQ(taken_over_, 0);
  EXPECT_FALSE(takeover_.under_way());
  EXPECT_TRUE(place_.frozen());
  EXPECT_TRUE(timers_.empty());
  // Each takeover has its workers.
  takeover_.Begin("it died", UniqueFd());
  Die("one");
  EXPECT_EQ(failed_.size(), 1u);
}

TEST_F(TakeoverTest, WorkerThatCannotMapIsEndedAndFollowed) {
  takeover_.Begin("it died", UniqueFd());
  const int kills = place_.kills;
  takeover_.OnWorkerOpened();
  holdings_.Answer(CudaResult::kOutOfMemory);
  EXPECT_EQ(useless_.size(), 1u);
  EXPECT_EQ(place_.kills, kills + 1);
  EXPECT_TRUE(holdings_.suspended);
  takeover_.OnWorkerGone();
  Succeed();
  EXPECT_EQ(taken_over_, 1);
}

TEST_F(TakeoverTest, SecondAnswerOfAWorkerIsIgnored) {
  takeover_.Begin("it died", UniqueFd());
  takeover_.OnWorkerOpened();
  takeover_.OnWorkerOpened();
  EXPECT_EQ(holdings_.times_mapped, 1);
}

TEST_F(TakeoverTest, FailsInTime) {
  takeover_.Begin("it died", UniqueFd());
  timers_.Advance(kTimeout);
  EXPECT_EQ(failed_, std::vector<std::string>{"no other worker took over in time"});
  // What comes later comes to nobody.
  Succeed();
  EXPECT_EQ(taken_over_, 0);
  EXPECT_TRUE(place_.frozen());
}

TEST_F(TakeoverTest, FailsWhereNoWorkerCanBeTaken) {
  place_.take_status = absl::ResourceExhaustedError("no descriptor left");
  takeover_.Begin("it died", UniqueFd());
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_NE(failed_[0].find("no descriptor left"), std::string::npos);
}

TEST_F(TakeoverTest, WhatIsForgottenIsNotTold) {
  place_.ends_at_once = false;
  takeover_.Begin("it died", UniqueFd());
  takeover_.Forget();
  place_.Vanish();
  takeover_.OnWorkerGone();
  timers_.Advance(kTimeout);
  EXPECT_EQ(place_.workers, 1);
  EXPECT_TRUE(failed_.empty());
  EXPECT_EQ(taken_over_, 0);
}

}  // namespace
}  // namespace warpline::server
