#include "server/gpu_server/continuity/replacement.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {
namespace {

// A worker that writes what its variables hold into the file, and answers when the test says so.
class ReplacementTest : public ::testing::Test, private WorkerLink {
 protected:
  void Begin(absl::Duration deadline = absl::Seconds(1)) {
    replacement_.Begin(deadline, [this](const absl::Status& status) { told_.push_back(status); });
  }
  void AnswerSave(uint64_t id, int error = 0) {
    warpline_internal::VariablesSaved saved;
    saved.set_id(id);
    saved.set_error(error);
    saved.set_message("a message");
    saver_.OnSaved(saved);
  }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  Rest rest_{&timers_, &place_};
  SessionStanding standing_;
  absl::Status send_status_;
  std::vector<uint64_t> saves_;
  // Of the takeover that began.
  std::optional<std::string> variables_;
  std::vector<absl::Status> told_;
  VariableSaver saver_{&timers_, this, absl::Seconds(60)};
  Replacement replacement_{{.rest = &rest_,
                            .saver = &saver_,
                            .standing = [this] { return standing_; },
                            .take_over =
                                [this](UniqueFd file) {
                                  char text[4];
                                  const ssize_t n =
                                      file.valid() ? pread(file.get(), text, sizeof(text), 0) : 0;
                                  variables_ = std::string(text, static_cast<size_t>(n));
                                }}};

 private:
  // WorkerLink.
  absl::Status Send(const warpline_internal::ToWorker& message,
                    absl::Span<const int> fds) override {
    if (!send_status_.ok()) return send_status_;
    saves_.push_back(message.save().id());
    return write(fds[0], "4711", 4) == 4 ? absl::OkStatus() : absl::InternalError("no write");
  }
};

TEST_F(ReplacementTest, TakeoverBeginsAtRest) {
  place_.Send(2);
  Begin();
  EXPECT_FALSE(variables_.has_value());
  place_.Complete();
  timers_.Advance(absl::Milliseconds(2));
  EXPECT_EQ(variables_, "");
  EXPECT_TRUE(place_.frozen());
  EXPECT_TRUE(told_.empty());
  replacement_.Finish(absl::OkStatus());
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
}

TEST_F(ReplacementTest, SessionThatDoesNotRestGoesOn) {
  place_.Send(2);
  Begin(absl::Milliseconds(5));
  timers_.Advance(absl::Milliseconds(5));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(told_[0]));
  EXPECT_FALSE(place_.frozen());
  EXPECT_FALSE(variables_.has_value());
}

TEST_F(ReplacementTest, SessionThatCannotOutliveItsWorkerGoesOn) {
  standing_.journal_flags = kJournalHeap;
  Begin();
  standing_ = {0, 2};
  Begin();
  ASSERT_EQ(told_.size(), 2u);
  for (const absl::Status& status : told_) EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_FALSE(place_.frozen());
  EXPECT_FALSE(variables_.has_value());
}

TEST_F(ReplacementTest, VariablesAreSavedFirst) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  ASSERT_EQ(saves_.size(), 1u);
  EXPECT_FALSE(variables_.has_value());
  AnswerSave(saves_[0] + 1);  // No answer that is due.
  EXPECT_FALSE(variables_.has_value());
  AnswerSave(saves_[0]);
  EXPECT_EQ(variables_, "4711");
  variables_.reset();
  AnswerSave(saves_[0]);
  EXPECT_FALSE(variables_.has_value());
  EXPECT_TRUE(timers_.empty());
}

TEST_F(ReplacementTest, SessionWhoseVariablesCannotBeSavedGoesOn) {
  standing_.journal_flags = kJournalVariables;
  Begin();
  AnswerSave(saves_.back(), 700);
  Begin();
  timers_.Advance(absl::Seconds(60));
  AnswerSave(saves_.back());
  send_status_ = absl::UnavailableError("no worker");
  Begin();
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_TRUE(absl::IsFailedPrecondition(told_[0]));
  EXPECT_TRUE(absl::IsDeadlineExceeded(told_[1]));
  EXPECT_TRUE(absl::IsUnavailable(told_[2]));
  EXPECT_FALSE(place_.frozen());
  EXPECT_FALSE(variables_.has_value());
}

TEST_F(ReplacementTest, OneAtATime) {
  place_.Send(1);
  Begin();
  Begin();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(told_[0]));
}

TEST_F(ReplacementTest, EndsWithItsSession) {
  place_.Send(1);
  Begin();
  replacement_.Finish(absl::AbortedError("the session ended"));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(told_[0]));
  place_.Complete();
  timers_.Advance(absl::Seconds(60));
  EXPECT_FALSE(variables_.has_value());
  EXPECT_TRUE(place_.frozen());
}

TEST(WhyNotReplaceableTest, NamesTheFirstObstacle) {
  EXPECT_EQ(WhyNotReplaceable({0, 1}, false), "");
  EXPECT_NE(WhyNotReplaceable({0, 2}, true), "");
  for (const uint32_t flag : {kJournalFaulted, kJournalVariables, kJournalHeap, kJournalDevices,
                              kJournalIncomplete, kJournalObjects}) {
    EXPECT_NE(WhyNotReplaceable({flag, 1}, false), "") << flag;
    EXPECT_EQ(WhyNotReplaceable({flag, 1}, true).empty(), flag == kJournalVariables) << flag;
  }
}

}  // namespace
}  // namespace warpline::server
