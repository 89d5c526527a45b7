#include "server/gpu_server/continuity/suspension.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {
namespace {

// Memory that moves, and a worker that saves its variables, when the test says so.
class SuspensionTest : public ::testing::Test, private WorkerLink {
 protected:
  void Begin() {
    suspension_.Begin(absl::Seconds(1),
                      [this](const absl::Status& status) { told_.push_back(status); });
  }
  void MoveOut(const absl::Status& status = absl::OkStatus()) {
    std::exchange(move_, nullptr)(status);
  }
  void AnswerSave(int error = 0) {
    warpline_internal::VariablesSaved saved;
    saved.set_id(saves_);
    saved.set_error(error);
    saver_.OnSaved(saved);
  }
  // Returns the code of the only answer so far.
  std::optional<absl::StatusCode> Told() const {
    if (told_.size() != 1) return std::nullopt;
    return told_[0].code();
  }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  Rest rest_{&timers_, &place_};
  Paging::Done move_;
  bool has_requests_ = false;
  SessionStanding standing_;
  uint64_t saves_ = 0;
  int workers_ended_ = 0;
  int rooms_ = 0;  // The paging asked for room.
  std::vector<absl::Status> told_;
  VariableSaver saver_{&timers_, this, absl::Seconds(60)};
  Paging paging_{{.timers = &timers_,
                  .rest = &rest_,
                  .page_out = [this](Paging::Done done) { move_ = std::move(done); },
                  .page_in = [](const Paging::Done&) {},
                  .is_away = [] { return false; },
                  .waits_for_worker = [] { return false; },
                  .await_room = [this](const std::function<void()>&) { ++rooms_; },
                  .stop_waiting = [] {},
                  .has_requests = [this] { return has_requests_; },
                  .on_away = [] {},
                  .on_came = [](absl::Duration) {},
                  .on_broken = [](const std::string&) {}}};
  Suspension suspension_{{.paging = &paging_,
                          .saver = &saver_,
                          .standing = [this] { return standing_; },
                          .end_worker = [this] { ++workers_ended_; }}};

 private:
  // WorkerLink.
  absl::Status Send(const warpline_internal::ToWorker& message, absl::Span<const int>) override {
    saves_ = message.save().id();
    return absl::OkStatus();
  }
};

TEST_F(SuspensionTest, TheWorkerEndsOnceTheMemoryIsAway) {
  Begin();
  EXPECT_EQ(workers_ended_, 0);
  MoveOut();
  EXPECT_EQ(workers_ended_, 1);
  EXPECT_TRUE(told_.empty());
  suspension_.OnWorkerGone();
  EXPECT_EQ(Told(), absl::StatusCode::kOk);
  EXPECT_FALSE(suspension_.TakeVariables().valid());
}

TEST_F(SuspensionTest, VariablesAreSavedFirst) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  MoveOut();
  EXPECT_EQ(workers_ended_, 0);
  AnswerSave();
  EXPECT_EQ(workers_ended_, 1);
  EXPECT_TRUE(suspension_.TakeVariables().valid());
  EXPECT_FALSE(suspension_.TakeVariables().valid());
}

TEST_F(SuspensionTest, WhatWouldBeLostIsNamedBeforeAnythingMoves) {
  standing_.journal_flags = kJournalObjects;
  Begin();
  EXPECT_TRUE(move_ == nullptr);
  ASSERT_EQ(Told(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(told_[0].message().find("arrays"), std::string::npos) << told_[0];
}

TEST_F(SuspensionTest, CommandsThatWereInFlightMayHaveMadeWhatWouldBeLost) {
  Begin();
  standing_.journal_flags = kJournalHeap;
  MoveOut();
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SuspensionTest, MemoryThatDoesNotLeaveKeepsTheWorker) {
  Begin();
  MoveOut(absl::ResourceExhaustedError("the host is full"));
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SuspensionTest, VariablesThatCannotBeSavedKeepTheWorker) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  MoveOut();
  AnswerSave(700);
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SuspensionTest, ClientThatWantsSomethingMeanwhileKeepsItsWorker) {
  Begin();
  paging_.OnWanted();
  MoveOut();
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kAborted);
  EXPECT_EQ(rooms_, 1);
}

TEST_F(SuspensionTest, ClientThatAsksForMemoryMeanwhileKeepsItsWorker) {
  Begin();
  has_requests_ = true;
  MoveOut();
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kAborted);
}

TEST_F(SuspensionTest, ClientThatGoesOnWhileVariablesAreSavedKeepsItsWorker) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  MoveOut();
  paging_.OnWanted();
  AnswerSave();
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_EQ(Told(), absl::StatusCode::kAborted);
  EXPECT_FALSE(suspension_.TakeVariables().valid());
}

TEST_F(SuspensionTest, SessionThatEndsMeanwhileIsTold) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  MoveOut();
  suspension_.Forget(absl::AbortedError("the session ended"));
  EXPECT_EQ(Told(), absl::StatusCode::kAborted);
  AnswerSave();
  EXPECT_EQ(workers_ended_, 0);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(SuspensionTest, AnAnswerAboutAnEarlierAttemptIsIgnored) {
  Begin();
  suspension_.Forget(absl::AbortedError("its worker died"));
  MoveOut();
  EXPECT_EQ(workers_ended_, 0);
}

TEST_F(SuspensionTest, OneAtATime) {
  Begin();
  Begin();
  ASSERT_EQ(Told(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SuspensionTest, MemoryThatIsAwayAlreadyNeedsNoMove) {
  paging_.Out(absl::Seconds(1), [](const absl::Status&) {});
  MoveOut();
  Begin();
  EXPECT_TRUE(move_ == nullptr);
  EXPECT_EQ(workers_ended_, 1);
}

}  // namespace
}  // namespace warpline::server
