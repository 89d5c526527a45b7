// Requests that find too little memory, while some comes back by itself.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/process_identity.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using warpline_internal::Hello;
using warpline_internal::MemoryRequest;

// A process that does nothing until it is told to end. It has an arena's addresses, as clients do.
class OtherProcess {
 public:
  explicit OtherProcess(uint64_t arena_bytes) {
    EXPECT_EQ(pipe(until_), 0);
    EXPECT_EQ(pipe(ready_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(until_[1]);
      void* const arena =
          mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      char byte = 0;
      if (arena != MAP_FAILED && write(ready_[1], &byte, 1) == 1) (void)!read(until_[0], &byte, 1);
      // Gives the addresses up, as exec() does, and goes on.
      munmap(arena, arena_bytes);
      if (write(ready_[1], &byte, 1) == 1) (void)!read(until_[0], &byte, 1);
      _exit(0);
    }
    close(until_[0]);
    AwaitReady();
  }
  ~OtherProcess() { End(); }

  Hello SayHello(Hello hello) const {
    hello.set_pid(static_cast<uint32_t>(pid_));
    hello.set_start_time(ProcessStartTime(hello.pid()));
    hello.set_boot_id(BootId());
    hello.set_pid_namespace(PidNamespace());
    return hello;
  }
  void GiveAddressesUp() {
    char byte = 0;
    EXPECT_EQ(write(until_[1], &byte, 1), 1);
    AwaitReady();
  }
  void End() {
    if (pid_ == 0) return;
    close(until_[1]);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  void AwaitReady() {
    char byte = 0;
    EXPECT_EQ(read(ready_[0], &byte, 1), 1);
  }

  int until_[2] = {};
  int ready_[2] = {};
  pid_t pid_ = 0;
};

// The device has 256 MiB, and a session may have 192 of them.
class SessionShortageTest : public SessionFixture {
 protected:
  static constexpr uint64_t kMost = 192 * kMiB;

  SessionShortageTest() { options_.session.resume_timeout = absl::Seconds(3600); }

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
  // Opens a session that has most of the device.
  std::unique_ptr<TestClient> TakeMost(const Hello& hello = ResumableHello()) {
    auto client = Dial();
    const auto welcome = client->Open(hello);
    EXPECT_TRUE(welcome.has_value());
    welcome_ = *welcome;
    EXPECT_EQ(client->RequestMemory(kArena, kMost, kMost)->bytes(), kMost);
    return client;
  }
  void AwaitDetached() {
    while (host_->Snapshot().sessions.at(0).state != "detached") std::this_thread::yield();
  }
  // Asks without waiting for the answer.
  static void Ask(TestClient* client) {
    MemoryRequest request;
    request.set_id(1);
    request.set_va(kArena);
    request.set_min_bytes(kMost);
    request.set_want_bytes(kMost);
    client->SendMessage(kMemoryRequest, request);
  }
  static uint64_t Granted(TestClient* client) {
    warpline_internal::MemoryGrant grant;
    EXPECT_TRUE(grant.ParseFromString(*client->Await(kMemoryGrant)));
    return grant.bytes();
  }
  // Everything that was said so far has been handled.
  void AwaitHandled(TestClient* client) {
    client->SendCommands(Body('e', 1));
    ASSERT_TRUE(client->Await(kReplies).has_value());
    host_->Snapshot();
  }

  warpline_internal::Welcome welcome_;
};

TEST_F(SessionShortageTest, ARequestWaitsForASessionWhoseClientIsAwayAndEnds) {
  StartServer();
  OtherProcess process(TestClient::GoodHello().arena_bytes());
  TakeMost(process.SayHello(ResumableHello())).reset();
  AwaitDetached();
  auto next = DialAndOpen();
  Ask(next.get());
  AwaitHandled(next.get());
  process.End();
  EXPECT_EQ(Granted(next.get()), kMost);
}

TEST_F(SessionShortageTest, ItIsRefusedOnceTheClientIsBackAndKeepsWhatItHas) {
  StartServer();
  TakeMost().reset();
  AwaitDetached();
  auto next = DialAndOpen();
  Ask(next.get());
  AwaitHandled(next.get());
  auto back = Dial();
  ASSERT_TRUE(back->Resume(welcome_, 1, 0).has_value());
  EXPECT_EQ(Granted(next.get()), 0u);
}

TEST_F(SessionShortageTest, NothingIsWaitedForWhereAllClientsAreThere) {
  StartServer();
  auto client = TakeMost();
  auto next = DialAndOpen();
  EXPECT_EQ(next->RequestMemory(kArena, kMost, kMost)->bytes(), 0u);
}

TEST_F(SessionShortageTest, SessionsThatFollowEachOtherAreNeverRefused) {
  StartServer();
  for (int i = 0; i < 20; ++i) {
    auto client = TakeMost();
    client->SendCommands(Body('e', 1));
    if (i % 2 != 0) {
      client->SendCommands(Body('k'));
      ASSERT_TRUE(client->Await(kFault).has_value());
    }
    client->Send(kClose, "");
    // Its worker may be there for a while.
    (void)client->AwaitClosed();
  }
}

TEST_F(SessionShortageTest, AProcessThatExecutesAnotherProgramIsGivenUpWhenItsConnectionEnds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own addresses look like an arena";
#endif
  StartServer();
  OtherProcess process(TestClient::GoodHello().arena_bytes());
  auto client = TakeMost(process.SayHello(ResumableHello()));
  process.GiveAddressesUp();
  client.reset();
  auto next = DialAndOpen();
  EXPECT_EQ(next->RequestMemory(kArena, kMost, kMost)->bytes(), kMost);
  EXPECT_EQ(host_->counters().clients_vanished.value(), 1u);
}

TEST_F(SessionShortageTest, ASessionEndsWithItsProcessThoughAnotherHasInheritedTheConnection) {
  StartServer();
  OtherProcess process(TestClient::GoodHello().arena_bytes());
  auto client = TakeMost(process.SayHello(ResumableHello()));
  process.End();
  // The connection stays.
  auto next = DialAndOpen();
  EXPECT_EQ(next->RequestMemory(kArena, kMost, kMost)->bytes(), kMost);
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kCancelled);
}

TEST_F(SessionShortageTest, ASessionOpensOnceThereIsHostMemoryForIt) {
  lease_options_.payer_host_bytes = 100 * kMiB;  // Of which one session takes most.
  StartServer();
  OtherProcess process(TestClient::GoodHello().arena_bytes());
  TakeMost(process.SayHello(ResumableHello())).reset();
  AwaitDetached();
  auto next = Dial();
  next->SendMessage(kHello, TestClient::GoodHello());
  while (host_->Snapshot().sessions.size() < 2) std::this_thread::yield();
  process.End();
  EXPECT_TRUE(next->Await(kWelcome).has_value());
}

}  // namespace
}  // namespace warpline::server
