#include "server/gpu_server/continuity/paging.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"

namespace warpline::server {
namespace {

// Memory that moves when the test says so.
class PagingTest : public ::testing::Test {
 protected:
  void Out() {
    paging_.Out(absl::Seconds(1), [this](const absl::Status& status) { left_.push_back(status); });
  }
  void GiveRoom() { std::exchange(room_, nullptr)(); }
  void EndMove(absl::Status status) { std::exchange(move_, nullptr)(std::move(status)); }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  Rest rest_{&timers_, &place_};
  Paging::Done move_;
  std::vector<std::string> moves_;
  bool is_away_ = false;
  bool waits_for_worker_ = false;
  int told_away_ = 0;
  int told_came_ = 0;
  bool has_requests_ = false;
  std::function<void()> room_;  // The paging waits for room.
  std::vector<std::string> broken_;
  std::vector<absl::Status> left_;
  Paging paging_{{.timers = &timers_,
                  .rest = &rest_,
                  .page_out =
                      [this](Paging::Done done) {
                        moves_.emplace_back("out");
                        move_ = std::move(done);
                      },
                  .page_in =
                      [this](Paging::Done done) {
                        moves_.emplace_back("in");
                        move_ = std::move(done);
                      },
                  .is_away = [this] { return is_away_; },
                  .waits_for_worker = [this] { return waits_for_worker_; },
                  .await_room = [this](std::function<void()> again) { room_ = std::move(again); },
                  .stop_waiting = [this] { room_ = nullptr; },
                  .has_requests = [this] { return has_requests_; },
                  .on_away = [this] { ++told_away_; },
                  .on_came = [this](absl::Duration) { ++told_came_; },
                  .on_broken = [this](const std::string& why) { broken_.push_back(why); },
                  .worker_timeout = absl::Seconds(60)}};
};

using Moves = std::vector<std::string>;

TEST_F(PagingTest, MemoryGoesAtRestAndComesBackWhenItIsWanted) {
  place_.Send(1);
  Out();
  EXPECT_TRUE(moves_.empty());
  place_.Complete();
  timers_.Advance(absl::Milliseconds(2));
  EXPECT_EQ(moves_, Moves({"out"}));
  EndMove(absl::OkStatus());
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_TRUE(left_[0].ok());
  EXPECT_EQ(told_away_, 1);
  place_.Send(1);
  EXPECT_EQ(place_.waiting(), 1u);
  paging_.OnWanted();
  EXPECT_EQ(moves_, Moves({"out"}));
  GiveRoom();
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  EXPECT_EQ(told_came_, 0);
  EXPECT_EQ(place_.waiting(), 1u);
  EndMove(absl::OkStatus());
  EXPECT_EQ(told_came_, 1);
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(PagingTest, MemoryThatIsWantedOnItsWayOutComesBackAtOnce) {
  Out();
  paging_.OnWanted();
  EXPECT_EQ(moves_, Moves({"out"}));
  EndMove(absl::OkStatus());
  GiveRoom();
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  EXPECT_EQ(told_away_, 0);
}

TEST_F(PagingTest, MemoryOfASessionThatAsksForMoreComesBackAtOnce) {
  Out();
  has_requests_ = true;
  EndMove(absl::OkStatus());
  EXPECT_TRUE(room_ != nullptr);
  EXPECT_EQ(told_away_, 0);
}

TEST_F(PagingTest, ItWaitsForRoomOnTheDevice) {
  Out();
  EndMove(absl::OkStatus());
  std::vector<absl::Status> came;
  paging_.In(absl::Seconds(10), [&](const absl::Status& status) { came.push_back(status); });
  GiveRoom();
  EndMove(absl::ResourceExhaustedError("no room"));
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  GiveRoom();
  EXPECT_EQ(moves_, Moves({"out", "in", "in"}));
  EXPECT_TRUE(came.empty());
  EndMove(absl::OkStatus());
  ASSERT_EQ(came.size(), 1u);
  EXPECT_TRUE(came[0].ok());
}

TEST_F(PagingTest, TheWordThatItIsThereIsWaitedForUntilTheDeadline) {
  Out();
  EndMove(absl::OkStatus());
  std::vector<absl::Status> came;
  paging_.In(absl::Seconds(10), [&](const absl::Status& status) { came.push_back(status); });
  timers_.Advance(absl::Seconds(10));
  ASSERT_EQ(came.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(came[0]));
  GiveRoom();
  EndMove(absl::OkStatus());
  EXPECT_EQ(came.size(), 1u);
  EXPECT_FALSE(place_.frozen());
  EXPECT_TRUE(timers_.empty());
}

TEST_F(PagingTest, WhatCannotGoStaysAndTheSessionGoesOn) {
  Out();
  place_.Send(1);
  EndMove(absl::ResourceExhaustedError("no host memory"));
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(left_[0]));
  EXPECT_EQ(place_.waiting(), 0u);
  Out();
  EXPECT_EQ(moves_.size(), 1u);  // A command is in flight.
}

TEST_F(PagingTest, WhatIsAwayOfAnotherDeviceComesBackWhenOneCannotGo) {
  Out();
  is_away_ = true;
  EndMove(absl::ResourceExhaustedError("no host memory"));
  GiveRoom();
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  EXPECT_TRUE(left_.empty());
  EndMove(absl::OkStatus());
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(left_[0]));
  EXPECT_FALSE(place_.frozen());
}

TEST_F(PagingTest, AWorkerThatDoesNotUnmapHasToGo) {
  Out();
  EndMove(absl::InternalError("it does not unmap"));
  EXPECT_EQ(broken_, Moves({"it does not unmap"}));
  EXPECT_EQ(left_.size(), 1u);
}

TEST_F(PagingTest, AWorkerThatSaysNothingHasToGo) {
  waits_for_worker_ = true;
  Out();
  timers_.Advance(absl::Seconds(119));
  EXPECT_TRUE(broken_.empty());
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(broken_, Moves({"it does not unmap its memory, which is to be moved"}));
  EXPECT_TRUE(timers_.empty());
  paging_.Forget(absl::AbortedError("its worker died"));
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(left_[0]));

  Out();
  EndMove(absl::OkStatus());
  paging_.OnWanted();
  timers_.Advance(absl::Seconds(600));
  EXPECT_EQ(broken_.size(), 1u) << "it waits for room";
  GiveRoom();
  timers_.Advance(absl::Seconds(120));
  ASSERT_EQ(broken_.size(), 2u);
  EXPECT_EQ(broken_[1], "it does not map its memory again, which was moved");
}

TEST_F(PagingTest, APagerMayTakeItsTime) {
  Out();
  timers_.Advance(absl::Seconds(600));
  EXPECT_TRUE(broken_.empty());
  EndMove(absl::OkStatus());
  EXPECT_TRUE(timers_.empty());
}

TEST_F(PagingTest, AReplacementBringsItBackFirst) {
  Out();
  EndMove(absl::OkStatus());
  std::vector<absl::Status> rested;
  rest_.Begin(Rest::Reason::kReplacement, absl::Seconds(1),
              [&](const absl::Status& status) { rested.push_back(status); });
  GiveRoom();
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  EXPECT_TRUE(rested.empty());
  EndMove(absl::OkStatus());
  ASSERT_EQ(rested.size(), 1u);
  EXPECT_TRUE(rested[0].ok());
}

TEST_F(PagingTest, MemoryOnItsWayBackGoesAgainOnceItIsThere) {
  Out();
  EndMove(absl::OkStatus());
  paging_.OnWanted();
  Out();
  EXPECT_EQ(left_.size(), 1u);
  GiveRoom();
  EndMove(absl::OkStatus());
  EXPECT_EQ(moves_, Moves({"out", "in", "out"}));
  EndMove(absl::OkStatus());
  ASSERT_EQ(left_.size(), 2u);
  EXPECT_TRUE(left_[1].ok()) << left_[1];
  EXPECT_EQ(told_away_, 2);
}

TEST_F(PagingTest, MemoryThatFindsNoRoomInTimeIsNotSentAwayAgain) {
  Out();
  EndMove(absl::OkStatus());
  paging_.OnWanted();
  Out();
  timers_.Advance(absl::Seconds(1));
  ASSERT_EQ(left_.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(left_[1]));
  GiveRoom();
  EndMove(absl::OkStatus());
  EXPECT_EQ(moves_, Moves({"out", "in"}));
  EXPECT_TRUE(timers_.empty());
}

TEST_F(PagingTest, WhatIsForgottenDoesNotWaitForRoomAnyMore) {
  Out();
  EndMove(absl::OkStatus());
  paging_.OnWanted();
  EXPECT_TRUE(room_ != nullptr);
  paging_.Forget(absl::AbortedError("the session ended"));
  EXPECT_TRUE(room_ == nullptr);
}

TEST_F(PagingTest, WhatIsForgottenIsToldAndItsMoveConcernsNobody) {
  Out();
  paging_.Forget(absl::AbortedError("the session ended"));
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(left_[0]));
  EndMove(absl::OkStatus());
  EXPECT_EQ(left_.size(), 1u);
  EXPECT_EQ(told_away_, 0);
  EXPECT_TRUE(timers_.empty());
}

}  // namespace
}  // namespace warpline::server
