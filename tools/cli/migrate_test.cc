#include "tools/cli/migrate.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using warpline_internal::MoveReply;
using warpline_internal::MoveRequest;

// A scheduler that moves leases to server "b", each within so many polls, unless it is told to
// refuse one, or to fail it.
class MigrateTest : public ::testing::Test {
 protected:
  MigrationCalls Calls() {
    return {.ask = [this](const MoveRequest& request) { return Answer(request); },
            .pause =
                [this](absl::Duration pause) {
                  now_ += pause;
                  return --pauses_ == 0 ? 2 : 0;
                },
            .clock = [this] { return now_; },
            .say = [this](const std::string& line) { said_.push_back(line); },
            .complain = [this](const std::string& line) { complained_.push_back(line); }};
  }

  absl::StatusOr<MoveReply> Answer(const MoveRequest& request) {
    EXPECT_EQ(request.credential(), "operator");
    const std::string& lease = request.lease();
    if (silent_ > 0 && request.only_ask()) {
      --silent_;
      return absl::UnavailableError("no answer");
    }
    if (refused_.count(lease) != 0) return absl::ResourceExhaustedError("no capacity");
    MoveReply reply;
    reply.set_server("b");
    reply.set_device("GPU-b");
    if (!request.only_ask()) {
      EXPECT_EQ(polls_.count(lease), 0u) << "it is begun once";
      polls_[lease] = 0;
      most_ = std::max(most_, polls_.size() - over_.size());
      return reply;
    }
    EXPECT_EQ(request.to(), "b");
    if (++polls_[lease] < takes_) return reply;
    over_.insert(lease);
    reply.set_state(failed_.count(lease) != 0 ? MoveReply::FAILED : MoveReply::MOVED);
    if (failed_.count(lease) != 0) reply.set_why("the link broke");
    reply.set_sessions(2);
    reply.set_bytes(4096);
    return reply;
  }

  static MoveRequest Request(const std::string& lease) {
    MoveRequest request;
    request.set_credential("operator");
    request.set_lease(lease);
    return request;
  }

  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  int pauses_ = -1;  // A signal comes in this one.
  int silent_ = 0;   // So many polls have no answer.
  int takes_ = 6;    // Polls.
  std::set<std::string> refused_;
  std::set<std::string> failed_;
  std::map<std::string, int> polls_;
  std::set<std::string> over_;
  size_t most_ = 0;  // Moves at a time.
  std::vector<std::string> said_;
  std::vector<std::string> complained_;
};

TEST_F(MigrateTest, ItSaysWhereALeaseGoesAndWhenItIsThere) {
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/true, Calls()), 0);
  EXPECT_THAT(said_, ElementsAre("moves lease=l to server=b device=GPU-b",
                                 "moved lease=l to server=b device=GPU-b sessions=2 bytes=4096 "
                                 "in 1.2 s"));
  EXPECT_THAT(complained_, IsEmpty());
}

TEST_F(MigrateTest, WithoutWaitingItOnlyBegins) {
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/false, Calls()), 0);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("moves lease=l")));
  EXPECT_EQ(polls_["l"], 0);
}

TEST_F(MigrateTest, ItSaysWhyALeaseStays) {
  refused_ = {"m"};
  failed_ = {"l"};
  EXPECT_EQ(MoveLease(Request("m"), /*wait=*/true, Calls()), 1);
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/true, Calls()), 1);
  EXPECT_THAT(complained_, ElementsAre("lease m was not moved: no capacity",
                                       "lease l was not moved: the link broke"));
}

TEST_F(MigrateTest, ASignalEndsTheWaitAndNotTheMove) {
  pauses_ = 3;
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/true, Calls()), 130);
  EXPECT_THAT(complained_, ElementsAre(HasSubstr("goes on")));
}

TEST_F(MigrateTest, ASilentSchedulerIsWaitedForButNotForEver) {
  silent_ = 100;
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/true, Calls()), 0);
  silent_ = 1000000;
  EXPECT_EQ(MoveLease(Request("m"), /*wait=*/true, Calls()), 1);
  EXPECT_THAT(complained_, ElementsAre("lease m was not moved: no answer"));
}

TEST_F(MigrateTest, ManyLeasesMoveAFewAtATime) {
  refused_ = {"l2"};
  failed_ = {"l5"};
  std::vector<std::string> leases;
  for (int i = 0; i < 12; ++i) leases.push_back(absl::StrCat("l", i));
  EXPECT_EQ(MoveLeases("operator", leases, Calls()), 0);
  EXPECT_EQ(over_.size(), 11u);
  EXPECT_EQ(most_, 4u);
  EXPECT_EQ(said_.size(), 11u + 10u);
  EXPECT_THAT(complained_, ElementsAre("lease l2 was not moved: no capacity",
                                       "lease l5 was not moved: the link broke"));
}

TEST_F(MigrateTest, ASignalEndsADrainsWait) {
  pauses_ = 2;
  EXPECT_EQ(MoveLeases("operator", {"l", "m"}, Calls()), 2);
  EXPECT_EQ(polls_.size(), 2u);
  EXPECT_THAT(complained_, ElementsAre(HasSubstr("go on")));
}

TEST_F(MigrateTest, NoTextOfASchedulerIsObeyed) {
  MigrationCalls calls = Calls();
  calls.ask = [](const MoveRequest&) {
    MoveReply reply;
    reply.set_state(MoveReply::MOVED);
    reply.set_server("\x1b[31m\nb");
    reply.set_device("\x07");
    return absl::StatusOr<MoveReply>(reply);
  };
  EXPECT_EQ(MoveLease(Request("l"), /*wait=*/true, calls), 0);
  EXPECT_THAT(said_, ElementsAre("moves lease=l to server=\\x1b[31m\\nb device=\\x07",
                                 HasSubstr("server=\\x1b[31m\\nb device=\\x07")));
}

}  // namespace
}  // namespace warpline::cli
