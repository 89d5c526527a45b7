#include "tools/cli/checkpoint.h"

#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using warpline_internal::CheckpointReply;
using warpline_internal::CheckpointRequest;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    request_.set_number("n");
    reply_.set_sessions(2);
    reply_.set_bytes(3 << 20);
    reply_.set_done_bytes(1 << 20);
    reply_.set_written_bytes(2 << 20);
    reply_.set_pause_ms(1260);
  }

  void Answer(CheckpointReply::State state, const std::string& why = "", int times = 1) {
    reply_.set_state(state);
    reply_.set_why(why);
    for (int i = 0; i < times; ++i) answers_.emplace_back(reply_);
  }

  // The last answer is repeated.
  int Follow() {
    return FollowCheckpoint(
        request_, {.ask =
                       [this](const CheckpointRequest& asked) {
                         EXPECT_EQ(asked.only_ask(), asked_++ > 0);
                         EXPECT_EQ(asked.number(), "n");
                         const auto answer = answers_.front();
                         if (answers_.size() > 1) answers_.pop_front();
                         return answer;
                       },
                   .pause =
                       [this](absl::Duration pause) {
                         now_ += pause;
                         return asked_ == signal_at_ ? 2 : 0;
                       },
                   .clock = [this] { return now_; },
                   .say = [this](const std::string& line) { said_.push_back(line); },
                   .complain = [this](const std::string& line) { said_.push_back(line); }});
  }

  CheckpointRequest request_;
  CheckpointReply reply_;
  std::deque<absl::StatusOr<CheckpointReply>> answers_;
  std::vector<std::string> said_;
  absl::Time now_ = absl::UnixEpoch();
  int asked_ = 0;
  int signal_at_ = -1;
};

using Lines = std::vector<std::string>;

TEST_F(CheckpointTest, SaysHowFarItIsAndHowItEnds) {
  Answer(CheckpointReply::UNDER_WAY, "", 101);
  Answer(CheckpointReply::DONE);
  EXPECT_EQ(Follow(), 0);
  EXPECT_EQ(said_,
            (Lines{"saved 1.0 MiB of 3.0 MiB", "saved 1.0 MiB of 3.0 MiB",
                   "saved 2 sessions with 3.0 MiB of device memory, 2.0 MiB of it anew; they "
                   "rested for 1.3 s"}));
}

TEST_F(CheckpointTest, SessionsThatEndHaveNoRest) {
  request_.set_ends(true);
  Answer(CheckpointReply::DONE);
  EXPECT_EQ(Follow(), 0);
  EXPECT_EQ(said_, Lines{"saved 2 sessions with 3.0 MiB of device memory, 2.0 MiB of it anew"});
}

TEST_F(CheckpointTest, SaysWhatWasRestored) {
  request_.set_action(CheckpointRequest::RESTORE);
  reply_.set_bytes(0);
  Answer(CheckpointReply::UNDER_WAY, "", 51);
  reply_.set_bytes(3 << 20);
  Answer(CheckpointReply::DONE);
  EXPECT_EQ(Follow(), 0);
  EXPECT_EQ(said_, (Lines{"read 1.0 MiB", "restored 2 sessions with 3.0 MiB of device memory"}));
}

TEST_F(CheckpointTest, SaysWhyNot) {
  Answer(CheckpointReply::UNDER_WAY);
  Answer(CheckpointReply::FAILED, "session 3 is guarded");
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(said_, Lines{"no checkpoint was saved: session 3 is guarded"});
}

TEST_F(CheckpointTest, AServerThatIsGoneEndsIt) {
  request_.set_action(CheckpointRequest::RESTORE);
  Answer(CheckpointReply::UNDER_WAY);
  answers_.emplace_back(absl::UnavailableError("nobody answers"));
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(said_, Lines{"the checkpoint was not restored: nobody answers"});
}

TEST_F(CheckpointTest, AServerThatStartedAnewKnowsNothingOfIt) {
  Answer(CheckpointReply::UNDER_WAY);
  Answer(CheckpointReply::UNKNOWN);
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(said_, Lines{"the server knows nothing of it; its log says how it ended"});
}

TEST_F(CheckpointTest, ASignalEndsWaiting) {
  Answer(CheckpointReply::UNDER_WAY);
  signal_at_ = 2;
  EXPECT_EQ(Follow(), 130);
}

}  // namespace
}  // namespace warpline::cli
