#include "server/gpu_server/continuity/residency.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"

namespace warpline::server {
namespace {

constexpr absl::Duration kMove = absl::Milliseconds(100);

// A device of 100 bytes, whose sessions have work or not as the test says. A move takes kMove.
class ResidencyTest : public ::testing::Test, public ResidencyHost {
 protected:
  struct Session {
    uint64_t here = 0;
    uint64_t away = 0;
    bool busy = false;
    Resident facts;
    int came = 0;
  };

  ResidencyTest() { Reset({}); }

  void Reset(ResidencyOptions options) {
    timers_ = FakeTimers();
    options.evicts = evicts_;
    options.keeps_limits = true;
    options.now = [this] { return timers_.now(); };
    residency_ = std::make_unique<Residency>(std::move(options), &timers_, this);
    residency_->Start();
  }

  Session& Add(uint64_t id, uint64_t here, bool busy = true) {
    Session& session = sessions_[id];
    session.here = here;
    session.busy = busy;
    return session;
  }
  // The session has a command, and wants its memory.
  void WantBack(uint64_t id) {
    residency_->Await({.session = id,
                       .bytes = {{0, sessions_[id].away}},
                       .priority = sessions_[id].facts.priority,
                       .weight = sessions_[id].facts.weight,
                       .niceness = sessions_[id].facts.niceness},
                      [this, id](const absl::Status& status) {
                        ASSERT_TRUE(status.ok()) << status;
                        Session& session = sessions_[id];
                        if (Free() < session.away) return WantBack(id);
                        CheckLimits(id, session.away);
                        session.here += std::exchange(session.away, 0);
                        timers_.RunAfter(kMove, [this, id] {
                          ++sessions_[id].came;
                          sessions_[id].busy = true;
                          residency_->OnCame(id, kMove);
                        });
                      });
  }
  void Grow(uint64_t id, uint64_t bytes) {
    sessions_[id].facts.waits = true;
    residency_->Await({.session = id, .bytes = {{0, bytes}}, .grows = true},
                      [this, id, bytes](const absl::Status& status) {
                        Session& session = sessions_[id];
                        session.facts.waits = false;
                        answers_.push_back(status);
                        if (!status.ok()) return;
                        ASSERT_GE(Free(), bytes);
                        CheckLimits(id, bytes);
                        session.here += bytes;
                        residency_->StopWaiting(id);
                      });
  }
  // Sessions are of lease 1 if their numbers are odd, and of lease 2 otherwise.
  static std::string LeaseOf(uint64_t id) { return id % 2 == 1 ? "1" : "2"; }
  uint64_t HeldOf(const std::string& lease) const {
    uint64_t held = 0;
    for (const auto& [id, session] : sessions_) held += LeaseOf(id) == lease ? session.here : 0;
    return held;
  }
  void CheckLimits(uint64_t id, uint64_t more) const {
    const uint64_t limit = limits_.count(LeaseOf(id)) == 0 ? 0 : limits_.at(LeaseOf(id));
    if (limit != 0) {
      EXPECT_LE(HeldOf(LeaseOf(id)) + more, limit) << "session " << id;
    }
  }
  uint64_t Free() const {
    uint64_t used = 0;
    for (const auto& [id, session] : sessions_) used += session.here;
    return 100 - used;
  }
  uint64_t Evicted(uint64_t id) const {
    return static_cast<uint64_t>(std::count_if(evictions_.begin(), evictions_.end(),
                                               [&](const Eviction& e) { return e.session == id; }));
  }

  // ResidencyHost.
  std::vector<Resident> ResidentsOf(int) override {
    std::vector<Resident> residents;
    for (auto& [id, session] : sessions_) {
      if (session.here == 0) continue;
      Resident resident = session.facts;
      resident.session = id;
      resident.bytes = resident.held_bytes = session.here;
      resident.in_flight = session.busy;
      residents.push_back(resident);
    }
    return residents;
  }
  void Score(uint64_t, std::vector<Resident>* residents) override {
    for (Resident& resident : *residents) {
      resident.score = scores_[resident.session];
      resident.spared = spared_ == resident.session;
    }
  }
  DeviceRoom RoomOf(int) override { return {Free(), 0}; }
  LeaseLimit LimitOf(uint64_t id) override { return {LeaseOf(id), limits_[LeaseOf(id)]}; }
  void MoveOut(uint64_t id, absl::Duration, std::function<void(absl::Status)> done) override {
    ++moves_;
    if (!refuse_.ok()) return done(refuse_);
    sessions_[id].facts.moving = true;
    timers_.RunAfter(kMove, [this, id, done = std::move(done)] {
      Session& session = sessions_[id];
      session.facts.moving = false;
      session.away += std::exchange(session.here, 0);
      done(absl::OkStatus());
      if (session.busy) WantBack(id);
    });
  }
  void OnEvicted(const Eviction& eviction, const absl::Status& status) override {
    if (status.ok()) evictions_.push_back(eviction);
  }

  FakeTimers timers_;
  std::map<uint64_t, Session> sessions_;
  std::map<uint64_t, uint32_t> scores_;
  std::map<std::string, uint64_t> limits_;
  bool evicts_ = true;
  uint64_t spared_ = 0;
  int moves_ = 0;
  absl::Status refuse_;
  std::vector<Eviction> evictions_;
  std::vector<absl::Status> answers_;
  std::unique_ptr<Residency> residency_;
};

TEST(MostGrowthTest, WhatFitsOnTheDeviceMayGrowUpToIt) {
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 150,
                        .host_bytes = 0,
                        .total_bytes = 60,
                        .own_bytes = 60,
                        .largest_bytes = 0}),
            40u);
}

TEST(MostGrowthTest, AnySessionCanComeBackWhateverIsThere) {
  // All that is away, and the largest that has to leave, fit on the host.
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 200,
                        .host_bytes = 150,
                        .total_bytes = 120,
                        .own_bytes = 50,
                        .largest_bytes = 70}),
            30u);
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 200,
                        .host_bytes = 50,
                        .total_bytes = 110,
                        .own_bytes = 5,
                        .largest_bytes = 10}),
            10u);
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 200,
                        .host_bytes = 50,
                        .total_bytes = 100,
                        .own_bytes = 20,
                        .largest_bytes = 10}),
            3u);
}

TEST(MostGrowthTest, ThereIsALimit) {
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 130,
                        .host_bytes = 1000,
                        .total_bytes = 120,
                        .own_bytes = 50,
                        .largest_bytes = 70}),
            10u);
  EXPECT_EQ(MostGrowth({.capacity_bytes = 100,
                        .limit_bytes = 110,
                        .host_bytes = 1000,
                        .total_bytes = 120,
                        .own_bytes = 50,
                        .largest_bytes = 70}),
            0u);
}

TEST(MostGrowthTest, AllOfASessionFitsBesideWhatCannotBeMoved) {
  GrowthFacts facts = {.capacity_bytes = 100,
                       .limit_bytes = 400,
                       .host_bytes = 1000,
                       .total_bytes = 130,
                       .fixed_bytes = 30,
                       .own_bytes = 40,
                       .largest_bytes = 60};
  EXPECT_EQ(MostGrowth(facts), 30u);
  facts.stays = true;
  EXPECT_EQ(MostGrowth(facts), 10u);
  facts.own_bytes = 65;
  EXPECT_EQ(MostGrowth(facts), 5u);
}

TEST(MostGrowthTest, TheLargestSessionHasToFitBesideWhatCannotBeMoved) {
  EXPECT_TRUE(FitsBesideFixed({.capacity_bytes = 100, .fixed_bytes = 40, .largest_bytes = 60}));
  EXPECT_FALSE(FitsBesideFixed({.capacity_bytes = 100, .fixed_bytes = 41, .largest_bytes = 60}));
}

TEST_F(ResidencyTest, RoomThatIsThereIsGivenAtOnce) {
  Add(1, 40);
  Grow(1, 60);
  timers_.Advance(absl::ZeroDuration());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
  EXPECT_TRUE(evictions_.empty());
}

TEST_F(ResidencyTest, TheSessionWithoutWorkGoesFirstAndIsNamed) {
  Add(1, 30);
  Add(2, 30, /*busy=*/false);
  Add(3, 30);
  Grow(3, 30);
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(evictions_.size(), 1u);
  EXPECT_EQ(evictions_[0].session, 2u);
  EXPECT_EQ(evictions_[0].wanted_by, 3u);
  EXPECT_EQ(evictions_[0].reason, Eviction::Reason::kIdle);
  EXPECT_EQ(evictions_[0].bytes, 30u);
  EXPECT_EQ(evictions_[0].took, kMove);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
}

TEST_F(ResidencyTest, TwoThatDoNotFitTakeTurnsOfEightMoves) {
  Add(1, 70);
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Seconds(60));
  // A turn and its two moves take 1.8 s.
  EXPECT_GE(sessions_[1].came, 14);
  EXPECT_LE(sessions_[1].came, 17);
  EXPECT_NEAR(sessions_[1].came, sessions_[2].came, 1);
  for (size_t i = 2; i < evictions_.size(); ++i) {
    EXPECT_GE(evictions_[i].turn, 8 * 2 * kMove);
    EXPECT_EQ(evictions_[i].reason, Eviction::Reason::kTurnOver);
  }
}

TEST_F(ResidencyTest, WhoeverHasMoreWeightStaysLonger) {
  Add(1, 70).facts.weight = 3;
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Seconds(60));
  for (size_t i = 2; i < evictions_.size(); ++i) {
    EXPECT_GE(evictions_[i].turn, (evictions_[i].session == 1 ? 3 : 1) * 16 * kMove);
  }
  EXPECT_GT(evictions_.size(), 10u);
}

TEST_F(ResidencyTest, WorkOfHigherPriorityIsNotMovedAndIdleMemoryIs) {
  Add(1, 70).facts.priority = 1;
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Seconds(60));
  EXPECT_TRUE(evictions_.empty());
  sessions_[1].busy = false;
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(Evicted(1), 1u);
  EXPECT_EQ(sessions_[2].came, 1);
}

TEST_F(ResidencyTest, ANiceSessionStandsAsIfItHadComeLater) {
  for (const bool later : {false, true}) {
    Reset({});
    sessions_.clear();
    Add(1, 100).facts.moving = true;  // Nobody has room before both wait.
    Add(2, 0).away = 100;
    sessions_[2].facts.niceness = 4;
    Add(3, 0).away = 100;
    WantBack(2);
    const absl::Duration after = 4 * Residency::kLaterPerNiceness;
    timers_.Advance(later ? after + absl::Milliseconds(1) : after - absl::Milliseconds(1));
    WantBack(3);
    sessions_[1].facts.moving = false;
    while (sessions_[2].came + sessions_[3].came == 0) timers_.Advance(absl::Milliseconds(10));
    EXPECT_EQ(sessions_[2].came, later ? 1 : 0) << "it waits for no longer than that";
    EXPECT_EQ(sessions_[3].came, later ? 0 : 1);
  }
}

TEST_F(ResidencyTest, ANiceSessionHasNoLongerTurnThanItsWeight) {
  Add(1, 70).facts.weight = 3;
  sessions_[1].facts.niceness = 5;  // 335 of 1024.
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Seconds(60));
  EXPECT_GT(evictions_.size(), 10u);
  for (size_t i = 2; i < evictions_.size(); ++i) {
    EXPECT_LT(evictions_[i].turn, 3 * 16 * kMove) << "its weight would be three turns of another";
  }
}

TEST_F(ResidencyTest, TheFirstInLineIsServedFirst) {
  Add(1, 100);
  Add(2, 0).away = 90;
  Add(3, 0).away = 10;
  WantBack(2);
  WantBack(3);
  while (evictions_.empty()) timers_.Advance(absl::Milliseconds(10));
  timers_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(sessions_[2].here, 90u);
  EXPECT_EQ(sessions_[3].here, 0u);
  timers_.Advance(kMove);
  EXPECT_EQ(sessions_[3].here, 10u) << "it fits beside";
}

TEST_F(ResidencyTest, TwoThatGrowDoNotBlockEachOther) {
  Add(1, 50);
  Add(2, 50);
  Grow(1, 20);
  Grow(2, 20);
  timers_.Advance(absl::Seconds(1));
  ASSERT_GE(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
  EXPECT_EQ(sessions_[1].here, 70u);
  EXPECT_EQ(sessions_[2].away, 50u);
}

TEST_F(ResidencyTest, WhatNobodyCanMakeRoomForIsRefusedWithTheReason) {
  Add(1, 60).facts.why_not = "it shares memory with other sessions";
  Add(2, 20);
  Add(3, 10);
  Grow(2, 50);
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers_[0]));
  EXPECT_NE(answers_[0].message().find("session 1 has 60 that cannot be moved, since it shares"),
            std::string::npos)
      << answers_[0];
  EXPECT_TRUE(evictions_.empty());
}

TEST_F(ResidencyTest, ThePolicyChoosesAmongThoseThatMayGo) {
  Add(1, 30, false);
  Add(2, 30, false);
  Add(3, 30, false);
  Add(4, 10);
  scores_[2] = 5;
  spared_ = 1;
  Grow(4, 50);
  timers_.Advance(absl::Seconds(2));
  ASSERT_EQ(evictions_.size(), 2u);
  EXPECT_EQ(evictions_[0].session, 2u);
  EXPECT_EQ(evictions_[1].session, 3u);
}

TEST_F(ResidencyTest, ASessionThatCannotBeMovedIsLeftAloneForLongerAndLonger) {
  Add(1, 70);
  Add(2, 0).away = 70;
  refuse_ = absl::DeadlineExceededError("its work does not end");
  WantBack(2);
  timers_.Advance(absl::Minutes(5));
  EXPECT_GE(moves_, 4);
  EXPECT_LE(moves_, 8);
  refuse_ = absl::OkStatus();
  timers_.Advance(absl::Minutes(6));
  EXPECT_GE(sessions_[2].came, 1);
}

TEST_F(ResidencyTest, FreeMemoryIsKeptByMovingWhatHasHadNoWorkForLong) {
  Reset({.low_water_bytes = 20});
  Add(1, 50, /*busy=*/true);
  Add(2, 40, /*busy=*/false);
  timers_.Advance(absl::Seconds(1));
  EXPECT_TRUE(evictions_.empty());
  timers_.Advance(absl::Seconds(4));
  ASSERT_EQ(evictions_.size(), 1u);
  EXPECT_EQ(evictions_[0].session, 2u);
  EXPECT_EQ(evictions_[0].wanted_by, 0u);
  EXPECT_EQ(evictions_[0].reason, Eviction::Reason::kAhead);
  timers_.Advance(absl::Minutes(1));
  EXPECT_EQ(evictions_.size(), 1u);
}

TEST_F(ResidencyTest, ASessionThatComesBackTooSoonHasToBeIdleForLonger) {
  Add(1, 70, /*busy=*/false);
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(Evicted(1), 1u);
  // It was only between two commands.
  sessions_[1].busy = true;
  WantBack(1);
  while (sessions_[1].came == 0) timers_.Advance(absl::Milliseconds(10));
  sessions_[1].busy = false;
  const uint64_t before = Evicted(1);
  timers_.Advance(absl::Milliseconds(150));
  EXPECT_EQ(Evicted(1), before) << "100 ms are not enough any more";
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(Evicted(1), before + 1);
}

TEST_F(ResidencyTest, ThrashingMakesTurnsLongerAndThenRefusesMore) {
  // Turns that cost more than they last.
  Reset({.least_turn = absl::Milliseconds(1), .moves_per_turn = 0});
  Add(1, 70);
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Minutes(2));
  Add(3, 30);
  Grow(3, 10);
  timers_.Advance(absl::Seconds(5));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers_[0]));
  EXPECT_NE(answers_[0].message().find("% of its time on moving memory"), std::string::npos)
      << answers_[0];
}

TEST_F(ResidencyTest, BooksThatShowTooMuchDoNotKeepASessionAway) {
  Add(1, 40);
  Add(2, 0).away = 50;
  // The device has 60 by the books and not really.
  int tries = 0;
  std::function<void()> want = [&] {
    residency_->Await({.session = 2, .bytes = {{0, 50}}}, [&](const absl::Status&) {
      if (++tries < 100 && sessions_[1].here > 0) want();
    });
  };
  want();
  timers_.Advance(absl::Seconds(10));
  EXPECT_EQ(Evicted(1), 1u);
}

TEST_F(ResidencyTest, RoomThatWasMadeIsNotTakenByAnother) {
  Add(1, 100, /*busy=*/false);
  residency_->Await({.session = 2, .bytes = {{0, 60}}}, [](const absl::Status&) {});
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(Evicted(1), 1u);
  Grow(3, 60);
  timers_.Advance(absl::Seconds(1));
  EXPECT_TRUE(answers_.empty()) << "it is still for session 2";
  timers_.Advance(absl::Seconds(5));
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(ResidencyTest, WithoutLeaveToMoveSessionsWaitForRoom) {
  timers_ = FakeTimers();
  ResidencyOptions options;
  options.now = [this] { return timers_.now(); };
  residency_ = std::make_unique<Residency>(std::move(options), &timers_, this);
  residency_->Start();
  Add(1, 70, /*busy=*/false);
  Add(2, 0).away = 70;
  WantBack(2);
  timers_.Advance(absl::Minutes(1));
  EXPECT_TRUE(evictions_.empty());
  sessions_.erase(1);
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(sessions_[2].came, 1);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(ResidencyTest, SessionsOfALeaseTakeTurnsWithinItsLimit) {
  limits_["1"] = 50;
  Add(1, 30);
  Add(3, 0).away = 30;
  Add(2, 20);
  WantBack(3);
  timers_.Advance(absl::Seconds(20));
  EXPECT_GT(sessions_[1].came, 2);
  EXPECT_GT(sessions_[3].came, 2);
  // The device has room for all, so another lease is not asked for any.
  EXPECT_EQ(Evicted(2), 0u);
}

TEST_F(ResidencyTest, ALimitHoldsAlsoWhereSessionsHaveNoMoreThanTheDevice) {
  evicts_ = false;
  Reset({});
  limits_["1"] = 50;
  Add(1, 30, /*busy=*/false);
  Add(3, 10);
  Grow(3, 30);
  timers_.Advance(absl::Seconds(5));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok()) << answers_[0];
  EXPECT_EQ(Evicted(1), 1u);
  EXPECT_EQ(evictions_[0].wanted_by, 3u);
}

TEST_F(ResidencyTest, WhoWantsMoreThanTheLimitAloneIsRefusedAtOnce) {
  limits_["1"] = 50;
  Add(1, 30);
  Grow(1, 30);
  timers_.Advance(absl::ZeroDuration());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers_[0]));
  EXPECT_NE(answers_[0].message().find("at most"), 0u);
  EXPECT_NE(answers_[0].message().find("may have 50 bytes"), std::string::npos) << answers_[0];
}

TEST_F(ResidencyTest, WhatCannotBeMovedInALeaseIsNamed) {
  limits_["1"] = 50;
  Add(1, 30).facts.why_not = "it shares memory with other sessions";
  Add(3, 10);
  Grow(3, 20);
  timers_.Advance(absl::ZeroDuration());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_NE(answers_[0].message().find("session 1 cannot be moved, since it shares memory"),
            std::string::npos)
      << answers_[0];
}

TEST_F(ResidencyTest, SharedMemoryOfASessionThatIsSuspendedCountsAgainstTheLimit) {
  limits_["1"] = 60;
  Session& suspended = Add(1, 20, /*busy=*/false);
  suspended.facts.moving = true;
  suspended.facts.staying_bytes = 20;
  Add(3, 30);
  Grow(3, 15);
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers_[0])) << answers_[0];
  EXPECT_NE(answers_[0].message().find("memory of session 1"), std::string::npos) << answers_[0];
}

TEST_F(ResidencyTest, ASessionThatAsksAgainAtOnceHoldsUpNothing) {
  int answers = 0;
  const std::function<void()> ask = [&] {
    residency_->Await({.session = 1, .bytes = {{0, 10}}, .grows = true}, [&](const absl::Status&) {
      ++answers;
      ask();
    });
  };
  ask();
  timers_.Advance(absl::Milliseconds(100));
  EXPECT_GE(answers, 2);
  EXPECT_LE(answers, 100);
}

TEST_F(ResidencyTest, ARequestThatCanNeverBeHadDoesNotKeepItsSessionAwayOrOthersWaiting) {
  Add(1, 0).away = 20;
  Add(3, 0).away = 30;
  bool came = false;
  residency_->Await({.session = 1, .bytes = {{0, 1020}}, .least = {{0, 20}}},
                    [&](const absl::Status& status) { came = status.ok(); });
  WantBack(3);
  timers_.Advance(absl::Seconds(1));
  EXPECT_TRUE(came);
  EXPECT_EQ(sessions_[3].came, 1);
}

TEST_F(ResidencyTest, WhoWaitsForItsLeaseKeepsNobodyElseWaiting) {
  limits_["1"] = 50;
  Add(1, 40);  // Its turn has begun.
  Add(3, 0).away = 30;
  Add(2, 10);
  WantBack(3);
  Grow(2, 20);
  timers_.Advance(absl::ZeroDuration());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
  EXPECT_EQ(sessions_[3].came, 0);
}

TEST_F(ResidencyTest, ALimitThatBecomesLessMovesWhatIsBeyondIt) {
  Add(1, 30);
  Add(3, 30);
  Add(2, 30);
  limits_["1"] = 40;
  residency_->OnLimitChanged();
  timers_.Advance(absl::Seconds(20));
  EXPECT_LE(HeldOf("1"), 40u);
  EXPECT_GT(sessions_[1].came + sessions_[3].came, 2);
  EXPECT_EQ(Evicted(2), 0u);
  // Without a limit both are there again.
  limits_["1"] = 0;
  residency_->OnLimitChanged();
  timers_.Advance(absl::Seconds(5));
  EXPECT_EQ(HeldOf("1"), 60u);
}

TEST_F(ResidencyTest, ASessionThatHasMoreThanTheLimitHasItAlone) {
  Add(1, 60);
  Add(3, 10);
  limits_["1"] = 50;
  residency_->OnLimitChanged();
  timers_.Advance(absl::Seconds(30));
  EXPECT_TRUE(sessions_[1].here == 0 || sessions_[3].here == 0);
  EXPECT_GT(Evicted(1) + Evicted(3), 0u);
}

}  // namespace
}  // namespace warpline::server
