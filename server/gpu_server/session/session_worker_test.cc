// Sessions outlive their workers, and memory outlives both.
#include <signal.h>

#include <future>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;
using warpline_internal::ReadBack;
using warpline_internal::ReadBackDone;

class SessionWorkerTest : public SessionFixture {
 protected:
  static ReadBackDone Read(TestClient* client, uint64_t va, uint64_t bytes) {
    ReadBack request;
    request.set_id(7);
    request.set_va(va);
    request.set_bytes(bytes);
    client->SendMessage(kReadBack, request);
    ReadBackDone done;
    const auto payload = client->Await(kReadBackDone);
    EXPECT_TRUE(payload.has_value() && done.ParseFromString(*payload));
    EXPECT_EQ(done.id(), 7u);
    return done;
  }

  // A command that reaches the dying worker would be in flight for ever.
  void AwaitRestart() {
    while (Only().continuity.restarts == 0 || Only().state != "open") std::this_thread::yield();
  }
  absl::Status Replace(uint64_t id, absl::Duration deadline) {
    std::promise<absl::Status> answer;
    host_->Do(SessionAction::kReplace, id, deadline,
              [&](const absl::Status& status) { answer.set_value(status); });
    return answer.get_future().get();
  }
  SessionSnapshot Only() { return host_->Snapshot().sessions.at(0); }
};

TEST_F(SessionWorkerTest, WorkerThatDiesAtRestIsReplacedWithTheMemoryInPlace) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB);
  client->RequestMemory(kArena + 128 * kMiB, 2 * kMiB, 2 * kMiB);
  client->SendCommands(Body('w', 77, kArena));
  client->Await(kReplies);
  client->SendCommands(Body('w', 78, kArena + 128 * kMiB));
  client->Await(kReplies);
  const int former = Only().worker_pid;
  client->SendCommands(Body('d'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  AwaitRestart();
  client->SendCommands(Body('r', kArena));
  EXPECT_EQ((*client->Await(kReplies))[0], 77);
  client->SendCommands(Body('r', kArena + 128 * kMiB));
  EXPECT_EQ((*client->Await(kReplies))[0], 78);
  EXPECT_EQ(Only().continuity.restarts, 1u);
  EXPECT_NE(Only().worker_pid, former);
  EXPECT_EQ(Only().state, "open");
  EXPECT_THAT(Only().reason, HasSubstr("worker died"));
  EXPECT_EQ(host_->counters().faults.value(), 0u);
}

TEST_F(SessionWorkerTest, MemoryIsGrantedAfterAReplacement) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('d'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  // On its way through death and replacement at an unknown place.
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  AwaitRestart();
  client->SendCommands(Body('w', 5, kArena));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionWorkerTest, ReplacementOnRequestNeedsRest) {
  StartServer();
  auto client = DialAndOpen();
  EXPECT_TRUE(Replace(1, absl::InfiniteDuration()).ok());
  EXPECT_EQ(Only().continuity.restarts, 1u);
  // The fake worker never says that a command is complete.
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  EXPECT_EQ(Replace(1, absl::Milliseconds(5)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Replace(2, absl::Milliseconds(5)).code(), absl::StatusCode::kNotFound);
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionWorkerTest, PlannedReplacementCarriesModuleVariables) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('v', 4711));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  for (uint64_t restarts = 1; restarts <= 2; ++restarts) {
    const absl::Status replaced = Replace(1, absl::InfiniteDuration());
    EXPECT_TRUE(replaced.ok()) << replaced;
    EXPECT_EQ(Only().continuity.restarts, restarts);
    client->SendCommands(Body('v', 0));
    const std::string reply = *client->Await(kReplies);
    EXPECT_EQ(reply, Body('\0', 4711).substr(8, 8));
  }
}

TEST_F(SessionWorkerTest, SessionWhoseVariablesCannotBeSavedGoesOnAsItWas) {
  options_.session.worker.args = {"--save_error=1"};
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('v', 4711));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  const absl::Status replaced = Replace(1, absl::InfiniteDuration());
  EXPECT_EQ(replaced.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(replaced.message()), HasSubstr("variables cannot be saved"));
  EXPECT_EQ(Only().continuity.restarts, 0u);
  client->SendCommands(Body('v', 0));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionWorkerTest, ModuleVariablesAreLostWithAWorkerThatDies) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('v', 4711));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  client->SendCommands(Body('d'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  EXPECT_THAT(Only().reason, HasSubstr("module variables"));
}

TEST_F(SessionWorkerTest, MemoryIsReadBackAfterAFault) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB);
  client->SendCommands(Body('w', 0x4142, kArena + 4096));
  client->Await(kReplies);
  client->SendCommands(Body('k'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  const ReadBackDone done = Read(client.get(), kArena + 4096, 100);
  EXPECT_EQ(done.error(), 0);
  ASSERT_EQ(done.data().size(), 100u);
  EXPECT_EQ(done.data().substr(0, 2), "BA");
  EXPECT_EQ(Read(client.get(), kArena + 2 * kMiB - 8, 8).error(), 0);
  // Neither what is not backed nor what is not the session's.
  EXPECT_EQ(Read(client.get(), kArena + 2 * kMiB - 8, 16).error(), 1);
  EXPECT_EQ(Read(client.get(), ~uint64_t{0} - 8, 16).error(), 1);
  EXPECT_EQ(Read(client.get(), 0, 8).error(), 1);
  client->SendCommands(Body('e'));  // Dropped.
  EXPECT_EQ(Only().state, "faulted");
}

TEST_F(SessionWorkerTest, SoundSessionsAreNotReadBack) {
  StartServer();
  auto client = DialAndOpen();
  EXPECT_EQ(Read(client.get(), kArena, 8).error(), static_cast<int>(CudaResult::kIllegalState));
}

TEST_F(SessionWorkerTest, FaultedSessionsEndWithTheServer) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('k'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  host_->FaultAll("the server is shutting down");
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SessionWorkerTest, FaultIsToldEvenIfTheSessionIsEndedTwice) {
  StartServer();
  auto client = DialAndOpen();
  host_->FaultAll("the lease is over");
  host_->FaultAll("the lease is over");
  EXPECT_TRUE(client->Await(kFault).has_value());
  EXPECT_TRUE(client->AwaitClosed().ok());
}

TEST_F(SessionWorkerTest, SessionsTakeWarmWorkersAndOthersAreMadeReady) {
  options_.session.warm_workers = 2;
  StartServer();
  auto first = DialAndOpen();
  auto second = DialAndOpen();
  auto third = DialAndOpen();
  third->SendCommands(Body('e'));
  EXPECT_TRUE(third->Await(kReplies).has_value());
  EXPECT_EQ(host_->Snapshot().sessions.size(), 3u);
}

TEST_F(SessionWorkerTest, WarmWorkersThatDoNotStartLeaveTheServerUsable) {
  options_.session.warm_workers = 1;
  options_.session.worker.args = {"--die_at_start"};
  StartServer();
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  EXPECT_FALSE(client->AwaitClosed().ok());
}

}  // namespace
}  // namespace warpline::server
