// Sessions whose workers are in MPS groups, with a stand-in for NVIDIA's daemon.
#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "proto/session.pb.h"
#include "proto/tier.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/process/child_process.h"
#include "server/mps/testing/fake_control.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;

class SessionMpsTest : public SessionFixture {
 protected:
  SessionMpsTest() {
    lease_options_.required = true;
    lease_options_.server_name = "s";
  }

  // With a daemon that fails in this way, as the stand-in says.
  void Start(const std::string& how = "control") {
    auto mps = std::make_unique<MpsOptions>();
    mps->launcher = ChildLauncher();
    mps->program.path = absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/server/mps/warpline-mps");
    mps->control = mps::InstallFakeControl(programs_.path(), how);
    mps->folder = place_.path();
    mps->idle = absl::ZeroDuration();
    options_.children.mps = std::move(mps);
    StartServer(devices_);
    leases_->SetKeys({key_.verify_key()});
  }

  // A client with a hello on its way to a lease with this part of the multiprocessors.
  std::unique_ptr<TestClient> Open(const std::string& tenant, uint32_t sm_percent,
                                   Tier tier = Tier::kIsolated) {
    LeaseToken token;
    token.lease = absl::StrCat(tenant, " ", sm_percent);
    token.tenant = tenant;
    token.server = "s";
    token.max_sessions = 4;
    token.expires = SteadyNow() + absl::Hours(1);
    token.slice.sm_percent = sm_percent;
    auto hello = TestClient::GoodHello();
    hello.set_token(SignToken(key_, token).value());
    hello.set_tier(static_cast<uint32_t>(tier));
    auto client = Dial();
    opened_ = client->Open(hello).has_value();
    return client;
  }
  // Of the worker of the session that was opened as the n-th of those that there are.
  std::string WorkersVariable(size_t n, const std::string& name) {
    const int worker = host_->Snapshot().sessions.at(n).worker_pid;
    std::ifstream file(absl::StrCat("/proc/", worker, "/environ"));
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    for (const absl::string_view entry : absl::StrSplit(text, '\0')) {
      if (absl::StartsWith(entry, name + "=")) return std::string(entry.substr(name.size() + 1));
    }
    return "";
  }
  std::string Pipes(size_t n) { return WorkersVariable(n, "CUDA_MPS_PIPE_DIRECTORY"); }

  const SigningKey key_ = SigningKey::Generate().value();
  const mps::TestFolder programs_;
  const mps::TestFolder place_;
  int devices_ = 1;      // For Start().
  bool opened_ = false;  // The last one.
};

TEST_F(SessionMpsTest, SessionsOfATenantShareADaemonEachWithItsPart) {
  Start();
  const auto first = Open("alice", 30);
  ASSERT_TRUE(opened_);
  const auto second = Open("alice", 70);
  ASSERT_TRUE(opened_);
  const auto other = Open("bob", 100);
  ASSERT_TRUE(opened_);
  EXPECT_TRUE(absl::StartsWith(Pipes(0), place_.path()));
  EXPECT_EQ(Pipes(1), Pipes(0));
  EXPECT_NE(Pipes(2), Pipes(0));
  EXPECT_EQ(WorkersVariable(0, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
  EXPECT_EQ(WorkersVariable(1, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "70");
  EXPECT_EQ(WorkersVariable(2, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "");
}

TEST_F(SessionMpsTest, TheDaemonEndsWithTheLastSession) {
  Start();
  auto client = Open("alice", 30);
  ASSERT_TRUE(opened_);
  const pid_t daemon = mps::DaemonOf(Pipes(0));
  ASSERT_TRUE(mps::IsRunning(daemon));
  client.reset();
  while (!place_.List().empty()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(mps::IsRunning(daemon));
}

TEST_F(SessionMpsTest, ASessionGoesOnWithAnotherWorkerWhenItsDaemonDies) {
  Start();
  const auto client = Open("alice", 30);
  ASSERT_TRUE(opened_);
  const std::string pipes = Pipes(0);
  const int worker = host_->Snapshot().sessions.at(0).worker_pid;
  kill(mps::DaemonOf(pipes), SIGKILL);
  while (mps::IsRunning(worker)) absl::SleepFor(absl::Milliseconds(1));
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  EXPECT_NE(Pipes(0), pipes);
  EXPECT_EQ(WorkersVariable(0, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
}

TEST_F(SessionMpsTest, WithoutADaemonNobodyHasMoreThanItsPart) {
  Start("dies");
  const auto limited = Open("alice", 30);
  EXPECT_FALSE(opened_);
  EXPECT_THAT(std::string(limited->AwaitClosed().message()), HasSubstr("already running"));
  // Who has no part goes on without.
  const auto client = Open("alice", 100);
  ASSERT_TRUE(opened_);
  EXPECT_EQ(Pipes(0), "");
}

TEST_F(SessionMpsTest, GuardedSessionsAreInNoGroup) {
  Start();
  const auto client = Open("alice", 30, Tier::kGuarded);
  ASSERT_TRUE(opened_);
  EXPECT_EQ(place_.List(), "");
}

// Theirs is a process of several contexts, and a daemon is one device's.
TEST_F(SessionMpsTest, SessionsOfSeveralDevicesAreInNoGroup) {
  devices_ = 2;
  lease_options_.required = false;
  Start();
  auto hello = TestClient::GoodHello();
  hello.set_device("0,1");
  const auto client = Dial();
  ASSERT_TRUE(client->Open(hello).has_value());
  EXPECT_EQ(Pipes(0), "");
  hello.set_device("1");
  const auto one = Dial();
  ASSERT_TRUE(one->Open(hello).has_value());
  EXPECT_NE(Pipes(1), "");
}

}  // namespace
}  // namespace warpline::server
