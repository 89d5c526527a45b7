// Sessions whose connection breaks or moves.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/process_identity.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using warpline_internal::Hello;
using warpline_internal::Welcome;

class SessionResumeTest : public SessionFixture {
 protected:
  SessionResumeTest() { options_.session.resume_timeout = absl::Seconds(60); }

  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
    if (host_ != nullptr) host_->FaultAll("the test is over");
    SessionFixture::TearDown();
  }

  static Hello ResumableHello() {
    Hello hello = TestClient::GoodHello();
    hello.set_features(kFeatureResume);
    return hello;
  }

  std::unique_ptr<TestClient> Open(const Hello& hello = ResumableHello()) {
    auto client = Dial();
    const auto welcome = client->Open(hello);
    EXPECT_TRUE(welcome.has_value());
    welcome_ = *welcome;
    return client;
  }

  absl::StatusCode Refused(const Welcome& welcome, uint64_t attempt, uint64_t received) {
    auto client = Dial();
    EXPECT_FALSE(client->Resume(welcome, attempt, received).has_value());
    return client->AwaitClosed().code();
  }

  void AwaitDetached() {
    while (host_->Snapshot().sessions.at(0).state != "detached") std::this_thread::yield();
  }

  Welcome welcome_;
};

TEST_F(SessionResumeTest, WelcomeOffersResumptionToThoseWhoKnowIt) {
  StartServer();
  Open();
  EXPECT_EQ(welcome_.features(), uint64_t{kFeatureResume});
  auto old = Dial();
  EXPECT_EQ(old->Open()->features(), uint64_t{kFeatureNone});
}

TEST_F(SessionResumeTest, RepliesThatTheClientLacksComeAgainOnceAndInOrder) {
  StartServer();
  auto client = Open();
  std::vector<std::string> replies;
  for (uint64_t i = 1; i <= 4; ++i) {
    client->SendCommands(Body('e', i) + std::string(i * 3000, 'x'));
    replies.push_back(*client->Await(kReplies));
  }
  client.reset();
  AwaitDetached();
  auto again = Dial();
  const auto resumed = again->Resume(welcome_, 1, 2);
  ASSERT_TRUE(resumed.has_value());
  EXPECT_EQ(resumed->seq, 4u);
  EXPECT_EQ(*again->Await(kReplies), replies[2]);
  EXPECT_EQ(*again->Await(kReplies), replies[3]);
  again->SendCommands(Body('e', 5));
  EXPECT_EQ(again->Await(kReplies)->substr(16), Body('e', 5));
  // The control loop counts the resumption before it answers this.
  EXPECT_EQ(host_->Snapshot().sessions.at(0).traffic.frames_again, 2u);
  EXPECT_EQ(host_->counters().resumes.value(), 1u);
}

TEST_F(SessionResumeTest, MemoryAndItsAnswersOutliveTheConnection) {
  StartServer();
  auto client = Open();
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  client->SendCommands(Body('w', 77, kArena));
  ASSERT_TRUE(client->Await(kReplies).has_value());
  client.reset();
  auto again = Dial();
  const auto resumed = again->Resume(welcome_, 1, 0);
  ASSERT_TRUE(resumed.has_value());
  EXPECT_EQ(resumed->controls, 1u);
  EXPECT_TRUE(again->Await(kMemoryGrant).has_value());
  EXPECT_TRUE(again->Await(kReplies).has_value());
  again->SendCommands(Body('r', kArena));
  EXPECT_EQ((*again->Await(kReplies))[0], 77);
}

TEST_F(SessionResumeTest, WrongSecretsAndUnknownSessionsLookTheSame) {
  StartServer();
  auto client = Open();
  Welcome wrong = welcome_;
  wrong.mutable_secret()->back() ^= 1;
  EXPECT_EQ(Refused(wrong, 1, 0), absl::StatusCode::kPermissionDenied);
  wrong.clear_secret();
  EXPECT_EQ(Refused(wrong, 1, 0), absl::StatusCode::kPermissionDenied);
  wrong = welcome_;
  wrong.set_session(welcome_.session() + 1);
  EXPECT_EQ(Refused(wrong, 1, 0), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(host_->counters().resumes_refused.value(), 3u);
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionResumeTest, ASecondUseOfAnAttemptChangesNothing) {
  StartServer();
  Open().reset();
  auto client = Dial();
  ASSERT_TRUE(client->Resume(welcome_, 5, 0).has_value());
  EXPECT_EQ(Refused(welcome_, 5, 0), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Refused(welcome_, 4, 0), absl::StatusCode::kPermissionDenied);
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionResumeTest, DishonestResumptionsAndAcknowledgementsEndTheSession) {
  StartServer();
  Open().reset();
  EXPECT_EQ(Refused(welcome_, 1, 7), absl::StatusCode::kInvalidArgument);
  auto client = Open();
  const AckBody body = {1};
  client->Send(kAck, std::string(reinterpret_cast<const char*>(&body), sizeof(body)));
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  auto garbage = Dial();
  garbage->Send(kResume, "\xff\xff\xff");
  EXPECT_EQ(garbage->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_EQ(host_->counters().protocol_errors.value(), 3u);
}

TEST_F(SessionResumeTest, SessionMovesToAnotherConnectionWhileItHasOne) {
  StartServer();
  auto client = Open();
  client->SendCommands(Body('e', 1));
  ASSERT_TRUE(client->Await(kReplies).has_value());
  auto other = Dial();
  ASSERT_TRUE(other->Resume(welcome_, 1, 1).has_value());
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kAborted);
  other->SendCommands(Body('e', 2));
  EXPECT_TRUE(other->Await(kReplies).has_value());
  // The control loop counts the transfer before it answers this.
  EXPECT_EQ(host_->Snapshot().sessions.size(), 1u);
  EXPECT_EQ(host_->counters().transfers.value(), 1u);
  EXPECT_EQ(host_->sessions(), 1);
}

TEST_F(SessionResumeTest, ClientThatDoesNotComeBackIsGivenUp) {
  options_.session.resume_timeout = absl::Milliseconds(30);
  StartServer();
  Open()->RequestMemory(kArena, 64 * kMiB, 64 * kMiB);
  ExpectNothingLeft();
  EXPECT_EQ(host_->counters().clients_vanished.value(), 1u);
  EXPECT_EQ(Refused(welcome_, 1, 0), absl::StatusCode::kPermissionDenied);
}

TEST_F(SessionResumeTest, ClientWhoseProcessHasEndedIsGivenUpAtOnce) {
  StartServer();
  int release[2];
  ASSERT_EQ(pipe(release), 0);
  // As clients hold their arena's addresses. The process inherits it.
  const uint64_t arena_bytes = ResumableHello().arena_bytes();
  void* const arena =
      mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(arena, MAP_FAILED);
  const pid_t process = fork();
  if (process == 0) {
    close(release[1]);
    char byte;
    _exit(read(release[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(release[0]);
  Hello hello = ResumableHello();
  hello.set_pid(static_cast<uint32_t>(process));
  hello.set_start_time(ProcessStartTime(hello.pid()));
  hello.set_boot_id(BootId());
  hello.set_pid_namespace(PidNamespace());
  Open(hello).reset();
  AwaitDetached();
  close(release[1]);
  ExpectNothingLeft();
  waitpid(process, nullptr, 0);
  munmap(arena, arena_bytes);
  // And one that had ended before.
  Open(hello).reset();
  ExpectNothingLeft();
}

TEST_F(SessionResumeTest, DetachedSessionsCountAndMayComeBackToADrainingServer) {
  options_.max_sessions = 1;
  StartServer();
  Open().reset();
  AwaitDetached();
  auto another = Dial();
  EXPECT_FALSE(another->Open().has_value());
  EXPECT_EQ(another->AwaitClosed().code(), absl::StatusCode::kResourceExhausted);
  host_->StartDrain();
  auto client = Dial();
  ASSERT_TRUE(client->Resume(welcome_, 1, 0).has_value());
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  client->Send(kClose, "");
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
}

TEST_F(SessionResumeTest, FaultIsToldAgainToAClientThatLostIt) {
  StartServer();
  auto client = Open();
  client->SendCommands(Body('k'));
  ASSERT_TRUE(client->Await(kFault).has_value());
  client.reset();
  AwaitDetached();
  client = Dial();
  ASSERT_TRUE(client->Resume(welcome_, 1, 0).has_value());
  EXPECT_TRUE(client->Await(kFault).has_value());
}

TEST_F(SessionResumeTest, WorkerIsReplacedWhileTheClientIsAway) {
  StartServer();
  Open().reset();
  AwaitDetached();
  kill(host_->Snapshot().sessions.at(0).worker_pid, SIGKILL);
  while (host_->counters().worker_replacements.value() == 0) std::this_thread::yield();
  auto client = Dial();
  ASSERT_TRUE(client->Resume(welcome_, 1, 0).has_value());
  client->SendCommands(Body('e', 1));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

// At every frame: a client that is cut off there, and again in the middle of coming back.
TEST_F(SessionResumeTest, CutsAnywhereLoseAndRepeatNothing) {
  StartServer();
  auto client = Open();
  uint64_t attempt = 0;
  uint64_t handled = 0;
  for (uint64_t i = 1; i <= 40; ++i) {
    client->SendCommands(Body('e', i) + std::string(i * 200, 'x'));
    if (i % 2 == 0) client->AwaitReceived(i);
    client = Dial();  // The former goes without a word.
    auto resumed = client->Resume(welcome_, ++attempt, handled);
    ASSERT_TRUE(resumed.has_value());
    if (i % 3 == 0) {
      client = Dial();
      resumed = client->Resume(welcome_, ++attempt, handled);
      ASSERT_TRUE(resumed.has_value());
    }
    // Lost on the way, or not: it is sent exactly if the server lacks it.
    ASSERT_GE(resumed->seq, i - 1);
    if (resumed->seq < i) client->SendCommands(Body('e', i) + std::string(i * 200, 'x'));
    const auto reply = client->Await(kReplies);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->substr(16, 24), Body('e', i));
    ++handled;
  }
}

}  // namespace
}  // namespace warpline::server
