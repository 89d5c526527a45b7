// Tests groups with the program that keeps a daemon as it is shipped, and a stand-in for NVIDIA's.
#include "server/gpu_server/children/mps_groups/mps_groups.h"

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/child_process.h"
#include "server/jail/jailer.h"
#include "server/jail/profiles.h"
#include "server/jail/uid_pool.h"
#include "server/mps/testing/fake_control.h"

namespace warpline::server {
namespace {

using mps::AskFakeControl;
using mps::DaemonOf;
using mps::IsRunning;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// Notes the processes that it starts.
class NotingLauncher : public ProcessLauncher {
 public:
  absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole role,
                                                         const ChildOptions& options,
                                                         UniqueFd* socket) override {
    auto process = ChildLauncher()->Launch(role, options, socket);
    if (process.ok()) pids.push_back((*process)->pid());
    return process;
  }

  std::vector<pid_t> pids;  // Of the spawner's loop.
};

class MpsGroupsTest : public testing::Test {
 protected:
  // What a worker hears.
  struct Member {
    std::shared_ptr<MpsMembership> membership;
    bool answered = false;
    absl::Status ready;
    MpsTerms terms;
    std::string over;
  };

  MpsGroupsTest() { options_.idle = absl::ZeroDuration(); }
  ~MpsGroupsTest() override {
    OnControl([this] {
      control_loop.AssertOnLoop();
      members_.clear();
    });
    if (groups_ != nullptr) Stop();
  }

  void Begin(const std::string& how = "control") {
    options_.launcher = &launcher_;
    options_.program.path =
        absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/server/mps/warpline-mps");
    options_.control = mps::InstallFakeControl(programs_.path(), how);
    options_.folder = place_.path();
    groups_ = std::make_unique<MpsGroups>(&control_, &spawner_, options_);
  }
  void Stop() {
    bool stopped = false;
    OnControl([&] {
      control_loop.AssertOnLoop();
      groups_->Stop([&stopped] { stopped = true; });
    });
    Await([&stopped] { return stopped; });
  }
  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  // Until it is true on the control loop.
  void Await(const std::function<bool()>& condition) {
    bool holds = false;
    while (!holds) {
      OnControl([&] { holds = condition(); });
      if (!holds) absl::SleepFor(absl::Milliseconds(1));
    }
  }
  size_t daemons() {
    size_t count = 0;
    OnControl([&] {
      control_loop.AssertOnLoop();
      count = groups_->daemons();
    });
    return count;
  }
  void AwaitDaemons(size_t count) {
    while (daemons() != count) absl::SleepFor(absl::Milliseconds(1));
  }
  std::vector<pid_t> Started() {
    spawner_.Flush();
    return launcher_.pids;
  }

  // Joins, and waits for the answer.
  Member& Join(const std::string& tenant, MpsMember about = {}, int ordinal = 0) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    OnControl([&] {
      control_loop.AssertOnLoop();
      member.membership = groups_->Join({tenant, ordinal}, std::move(about));
      member.membership->WhenReady([&member](const absl::Status& ready) {
        control_loop.AssertOnLoop();
        member.answered = true;
        member.ready = ready;
        if (ready.ok()) member.terms = member.membership->terms();
      });
      member.membership->WhenOver([&member](const std::string& why) { member.over = why; });
    });
    Await([&member] { return member.answered; });
    return member;
  }
  void Leave(Member* member) {
    OnControl([member] { member->membership = nullptr; });
  }
  static std::string PipesOf(const Member& member) {
    for (const auto& [name, value] : member.terms.environment) {
      if (name == "CUDA_MPS_PIPE_DIRECTORY") return value;
    }
    return "";
  }

  const mps::TestFolder programs_;
  const mps::TestFolder place_;
  EventLoop control_{"control", &control_loop};
  EventLoop spawner_{"spawner"};
  NotingLauncher launcher_;
  MpsOptions options_;
  std::unique_ptr<MpsGroups> groups_;
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(MpsGroupsTest, TheFirstWorkerHasADaemonStartedAndTheLastOneEndsIt) {
  Begin();
  EXPECT_EQ(daemons(), 0u);
  Member& first = Join("alice");
  ASSERT_TRUE(first.ready.ok()) << first.ready;
  Member& second = Join("alice");
  ASSERT_TRUE(second.ready.ok()) << second.ready;
  EXPECT_EQ(PipesOf(first), PipesOf(second));
  const pid_t daemon = DaemonOf(PipesOf(first));
  EXPECT_TRUE(IsRunning(daemon));
  OnControl([&] {
    control_loop.AssertOnLoop();
    EXPECT_TRUE(IsRunning(first.membership->server()));
    EXPECT_NE(first.membership->server(), daemon);
  });
  Leave(&first);
  EXPECT_EQ(daemons(), 1u);
  Leave(&second);
  AwaitDaemons(0);
  EXPECT_FALSE(IsRunning(daemon));
  EXPECT_EQ(place_.List(), "");
  EXPECT_EQ(Started().size(), 1u);
}

TEST_F(MpsGroupsTest, WhoComesBackInTimeFindsTheDaemon) {
  options_.idle = absl::Hours(1);
  Begin();
  Leave(&Join("alice"));
  Join("alice");
  EXPECT_EQ(Started().size(), 1u);
  EXPECT_EQ(daemons(), 1u);
}

TEST_F(MpsGroupsTest, TenantsAndDevicesHaveDaemonsOfTheirOwn) {
  Begin();
  const std::string alice = PipesOf(Join("alice"));
  EXPECT_NE(PipesOf(Join("bob")), alice);
  EXPECT_NE(PipesOf(Join("alice", {}, /*ordinal=*/1)), alice);
  EXPECT_EQ(daemons(), 3u);
}

TEST_F(MpsGroupsTest, APartOfTheMultiprocessorsIsInTheEnvironment) {
  Begin();
  Member& part = Join("alice", {.sm_percent = 30});
  EXPECT_TRUE(part.membership->limited());
  EXPECT_THAT(part.terms.environment, Contains(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30")));
  Member& all = Join("alice");
  EXPECT_FALSE(all.membership->limited());
  EXPECT_THAT(all.terms.environment,
              Not(Contains(Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", testing::_))));
}

TEST_F(MpsGroupsTest, WorkersHearOfTheEndOfTheirDaemonAndTheNextOneHasAnother) {
  Begin();
  Member& first = Join("alice");
  const std::string pipes = PipesOf(first);
  kill(DaemonOf(pipes), SIGKILL);
  Await([&first] { return !first.over.empty(); });
  Member& second = Join("alice");
  ASSERT_TRUE(second.ready.ok()) << second.ready;
  EXPECT_NE(PipesOf(second), pipes);
  EXPECT_TRUE(second.over.empty());
  AwaitDaemons(1);
}

TEST_F(MpsGroupsTest, TheDaemonEndsThoughTheProcessThatKeepsItIsKilled) {
  Begin();
  Member& member = Join("alice");
  const std::string pipes = PipesOf(member);
  const pid_t daemon = DaemonOf(pipes);
  const pid_t server = AskFakeControl(options_.control, pipes, "get_server_list");
  ASSERT_TRUE(IsRunning(server));
  kill(Started().front(), SIGKILL);
  // Its user is given to nobody else before all are gone.
  AwaitDaemons(0);
  EXPECT_FALSE(IsRunning(daemon));
  EXPECT_FALSE(IsRunning(server));
  EXPECT_EQ(place_.List(), "");
  OnControl([&member] { EXPECT_FALSE(member.over.empty()); });
}

TEST_F(MpsGroupsTest, AGroupWhoseDeviceHasFailedTakesNoMoreWorkers) {
  Begin();
  bool failed = false;
  Member& first = Join("alice", {.failed = [&failed] { return failed; }});
  EXPECT_EQ(PipesOf(Join("alice")), PipesOf(first));
  OnControl([&failed] { failed = true; });
  Member& later = Join("alice");
  ASSERT_TRUE(later.ready.ok()) << later.ready;
  EXPECT_NE(PipesOf(later), PipesOf(first));
  // Those that there are go on, or not, as the driver has it.
  EXPECT_TRUE(IsRunning(DaemonOf(PipesOf(first))));
  EXPECT_EQ(daemons(), 2u);
  EXPECT_EQ(PipesOf(Join("alice")), PipesOf(later));
}

TEST_F(MpsGroupsTest, ADaemonThatDoesNotStartIsAnErrorAndIsNotTriedForAWhile) {
  options_.retry = absl::Hours(1);
  Begin("dies");
  Member& first = Join("alice");
  EXPECT_TRUE(absl::IsUnavailable(first.ready)) << first.ready;
  EXPECT_THAT(std::string(first.ready.message()), HasSubstr("already running"));
  EXPECT_TRUE(absl::IsUnavailable(Join("alice").ready));
  EXPECT_EQ(Started().size(), 1u);
  AwaitDaemons(0);
}

TEST_F(MpsGroupsTest, ItIsTriedAgainLater) {
  options_.retry = absl::ZeroDuration();
  Begin("dies");
  Join("alice");
  AwaitDaemons(0);
  do {
    Join("alice");
  } while (Started().size() < 2);
}

TEST_F(MpsGroupsTest, ADaemonThatNeverAnswersIsEnded) {
  options_.start_timeout = absl::Milliseconds(1);
  options_.retry = absl::Hours(1);
  Begin("silent");
  EXPECT_THAT(std::string(Join("alice").ready.message()), HasSubstr("does not answer"));
  AwaitDaemons(0);
  EXPECT_EQ(place_.List(), "");
}

TEST_F(MpsGroupsTest, AProgramThatIsNotThereIsAnError) {
  Begin();
  options_.program.path = "/nonexistent/warpline-mps";
  groups_ = std::make_unique<MpsGroups>(&control_, &spawner_, options_);
  EXPECT_FALSE(Join("alice").ready.ok());
  AwaitDaemons(0);
}

TEST_F(MpsGroupsTest, NothingIsLeftOnceTheyAreStopped) {
  options_.idle = absl::Hours(1);
  Begin();
  const pid_t first = DaemonOf(PipesOf(Join("alice")));
  const pid_t second = DaemonOf(PipesOf(Join("bob")));
  Leave(members_[0].get());
  Stop();
  EXPECT_FALSE(IsRunning(first));
  EXPECT_FALSE(IsRunning(second));
  EXPECT_EQ(place_.List(), "");
  EXPECT_EQ(daemons(), 0u);
}

TEST_F(MpsGroupsTest, OneThatIsStoppedWhileItStartsLeavesNothing) {
  Begin();
  OnControl([this] {
    control_loop.AssertOnLoop();
    members_.emplace_back(std::make_unique<Member>())->membership = groups_->Join({"alice", 0}, {});
    groups_->Stop([] {});
  });
  AwaitDaemons(0);
  EXPECT_EQ(place_.List(), "");
}

TEST_F(MpsGroupsTest, InAJailTheGroupHasOneUserOfItsOwn) {
  jail::Jailer jailer(
      {.uids = jail::ParseWorkerUids("auto").value_or(jail::UidRange{}), .limits = {}});
  options_.jailer = &jailer;
  Begin();
  Member& member = Join("alice");
  ASSERT_TRUE(member.ready.ok()) << member.ready;
  ASSERT_NE(member.terms.cell, nullptr);
  const auto worker = jailer.NewCell({.profile = jail::kMpsWorkerProfile,
                                      .ordinals = {0},
                                      .same_user = member.terms.cell.get(),
                                      .folders = member.terms.folders});
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ((*worker)->plan().uid(), member.terms.cell->plan().uid());
  ASSERT_EQ((*worker)->plan().folders_size(), 1);
  EXPECT_EQ((*worker)->plan().folders(0).path(), PipesOf(member));
  EXPECT_FALSE((*worker)->plan().folders(0).makes());
  const auto other = jailer.NewCell(jail::kWorkerProfile, {0});
  ASSERT_TRUE(other.ok()) << other.status();
  // A server that is not root has no users to give.
  if ((*other)->plan().uid() != 0) {
    EXPECT_NE((*other)->plan().uid(), (*worker)->plan().uid());
  }
}

TEST(TrustGroupTest, AddressesAreNotTrusted) {
  EXPECT_EQ(TrustGroupOf("tenant a"), "tenant a");
  EXPECT_EQ(TrustGroupOf("ipv4:127.0.0.1"), "");
  EXPECT_EQ(TrustGroupOf("ipv6:[::1]"), "");
}

}  // namespace
}  // namespace warpline::server
