#include "tools/cli/upgrade.h"

#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using warpline_internal::UpgradeReply;
using warpline_internal::UpgradeRequest;

class UpgradeTest : public testing::Test {
 protected:
  void Answer(UpgradeReply::State state, const std::string& why = "") {
    UpgradeReply reply;
    reply.set_state(state);
    reply.set_why(why);
    reply.set_from_version("1.0");
    reply.set_to_version("1.1");
    reply.set_sessions(8);
    reply.set_pause_ms(1260);
    answers_.emplace_back(reply);
  }
  void Silence(int times) {
    for (int i = 0; i < times; ++i) answers_.emplace_back(absl::UnavailableError("nobody"));
  }

  // The last answer is repeated.
  int Follow() {
    UpgradeRequest request;
    request.set_number("n");
    return FollowUpgrade(request,
                         {.ask =
                              [this](const UpgradeRequest& asked) {
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

  std::deque<absl::StatusOr<UpgradeReply>> answers_;
  std::vector<std::string> said_;
  absl::Time now_ = absl::UnixEpoch();
  int asked_ = 0;
  int signal_at_ = -1;
};

TEST_F(UpgradeTest, FollowsItAcrossServersUntilItIsDone) {
  Answer(UpgradeReply::CHECKING);
  Answer(UpgradeReply::CHECKING);
  Answer(UpgradeReply::RESTING);
  Silence(5);
  // The next version does not know of it until the parent has told it.
  Answer(UpgradeReply::UNKNOWN);
  Answer(UpgradeReply::DONE);
  EXPECT_EQ(Follow(), 0);
  EXPECT_EQ(said_,
            (std::vector<std::string>{
                "checks the other version with the server's flags",
                "sessions come to rest, and the other version starts",
                "upgraded from version 1.0 to 1.1: 8 sessions go on after a pause of 1.3 s"}));
}

TEST_F(UpgradeTest, SaysWhyTheServerStays) {
  Answer(UpgradeReply::CHECKING);
  Answer(UpgradeReply::REFUSED, "session 3 is guarded");
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(said_.back(),
            "the server was not upgraded, and goes on as before: session 3 is guarded");
}

TEST_F(UpgradeTest, SaysWhyItWasRolledBack) {
  Answer(UpgradeReply::RESTING);
  Silence(3);
  Answer(UpgradeReply::ROLLED_BACK, "exit code 3");
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(said_[1], "the upgrade was rolled back: exit code 3");
  EXPECT_EQ(said_[2], "version 1.0 is back: 8 sessions go on after a pause of 1.3 s");
}

TEST_F(UpgradeTest, TheFirstAnswerMayBeAnError) {
  Silence(1);
  EXPECT_EQ(Follow(), 1);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(said_, std::vector<std::string>{"nobody"});
}

TEST_F(UpgradeTest, GivesUpWhereNoServerComesBack) {
  Answer(UpgradeReply::RESTING);
  Silence(1);
  EXPECT_EQ(Follow(), 1);
  EXPECT_GT(now_, absl::UnixEpoch() + absl::Minutes(3));
  EXPECT_EQ(said_.back(), "no server says how the upgrade ended; its log does: nobody");
}

TEST_F(UpgradeTest, ASignalEndsWaiting) {
  Answer(UpgradeReply::RESTING);
  signal_at_ = 2;
  EXPECT_EQ(Follow(), 130);
}

}  // namespace
}  // namespace warpline::cli
