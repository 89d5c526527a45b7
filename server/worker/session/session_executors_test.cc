// Tests executors that the decoder's thread, here the test's, adopts because it alone has something
// to do, one thing after the other.
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kStream = 7;
constexpr uint64_t kOther = 9;
constexpr uint64_t kOnDevice = 10;  // kStream there, which is made first.

class SessionExecutorsTest : public SessionTest {
 protected:
  SessionExecutorsTest() {
    HostedSession::Options options = OptionsOf();
    options.adopt_executors = true;
    Restart(std::move(options));
    LoadKernel();
    AddStream(kStream);
    SyncOwn();
  }

  void SyncOwn() {
    const uint64_t sync = Add(cmd::StreamSync{kStream});
    ASSERT_TRUE(Send().ok());
    Finish(sync);
  }
  void SendLaunch() {
    Add(LaunchOn(kStream), params_);
    ASSERT_TRUE(Send().ok());
  }
  // Waits for the answer, which comes from the executor's thread or from ours.
  void Finish(uint64_t sync) {
    while (session_->LookAfterExecutor()) {
    }
    replies_.Wait(sync);
  }

  // Sends one thing after the other until the executor is adopted, with a wait that is not over;
  // returns that wait. The executor's own thread may be in the way: it has a turn until it sleeps.
  uint64_t AwaitAdopted() {
    for (const absl::Time until = absl::Now() + absl::Seconds(60); absl::Now() < until;) {
      context_.Stall(kOnDevice);
      SendLaunch();
      const uint64_t sync = Add(cmd::StreamSync{kStream});
      EXPECT_TRUE(Send().ok());
      if (session_->LookAfterExecutor()) return sync;
      context_.Resume(kOnDevice);
      Finish(sync);
    }
    ADD_FAILURE() << "the executor is never adopted";
    return 0;
  }
  // Gets the executor adopted, with nothing under way.
  void PingPong() {
    const uint64_t sync = AwaitAdopted();
    context_.Resume(kOnDevice);
    Finish(sync);
  }
  bool Answered(uint64_t seq) { return replies_.Has(ReplyId::kReply, seq); }
};

TEST_F(SessionExecutorsTest, WhatIsUnderWayIsLookedAfter) {
  for (int i = 0; i < 100; ++i) {
    const uint64_t sync = AwaitAdopted();
    EXPECT_FALSE(Answered(sync));
    context_.Resume(kOnDevice);
    while (session_->LookAfterExecutor()) {
    }
    EXPECT_TRUE(Answered(sync));
  }
}

TEST_F(SessionExecutorsTest, AnExecutorThatIsGivenBackGoesOn) {
  const uint64_t sync = AwaitAdopted();
  session_->GiveBackExecutor();
  EXPECT_FALSE(session_->LookAfterExecutor());
  context_.Resume(kOnDevice);
  replies_.Wait(sync);
  PingPong();
}

// The decoder's thread is not held up: neither by many launches nor by what may take long.
TEST_F(SessionExecutorsTest, MuchWorkGoesToTheExecutorsThread) {
  PingPong();
  context_.Stall(kOnDevice);
  for (int i = 0; i < 100; ++i) Add(LaunchOn(kStream), params_);
  const uint64_t sync = Add(cmd::StreamSync{kStream});
  ASSERT_TRUE(Send().ok());
  EXPECT_FALSE(session_->LookAfterExecutor());
  context_.Resume(kOnDevice);
  replies_.Wait(sync);
}

TEST_F(SessionExecutorsTest, AnotherExecutorGetsItsWorkAsWell) {
  AddStream(kOther);
  ASSERT_TRUE(Send().ok());
  const uint64_t sync = AwaitAdopted();
  const uint64_t other = Add(cmd::StreamSync{kOther});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(other);
  EXPECT_FALSE(Answered(sync));
  context_.Resume(kOnDevice);
  replies_.Wait(sync);  // By its own thread, which has it back.
}

TEST_F(SessionExecutorsTest, AWaitForAnEventOfAnAdoptedExecutorIsAnswered) {
  Add(cmd::EventCreate{20, 0, 0});
  ASSERT_TRUE(Send().ok());
  PingPong();
  context_.Stall(kOnDevice);
  Add(cmd::EventRecord{20, kStream});
  ASSERT_TRUE(Send().ok());
  const uint64_t wait = Add(cmd::EventSync{20});
  ASSERT_TRUE(Send().ok());
  context_.Resume(kOnDevice);
  Finish(wait);
}

TEST_F(SessionExecutorsTest, AnAdoptedExecutorEndsWithItsStream) {
  PingPong();
  Add(cmd::StreamDestroy{kStream});
  AddStream(kOther);
  const uint64_t sync = Add(cmd::StreamSync{kOther});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_FALSE(session_->LookAfterExecutor());
}

TEST_F(SessionExecutorsTest, AFullSessionGivesItsExecutorBackBeforeItWaits) {
  HostedSession::Options options = OptionsOf();
  options.adopt_executors = true;
  options.limits.max_queued_commands = 4;
  replies_.Clear();
  Restart(std::move(options));
  AddStream(kStream);
  for (int i = 0; i < 50; ++i) {
    Add(cmd::StreamSync{kStream});
    ASSERT_TRUE(Send().ok());
  }
  SyncOwn();
}

// A device that holds its caller up at one launch.
class HoldsUp : public FakeContext {
 public:
  static constexpr int kAt = 1000;

  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    absl::Span<const std::byte> params, device::StreamId stream) override {
    {
      MutexLock lock(&mu_);
      ++launches_;
      while (launches_ == kAt && !released_) changed_.Wait(&mu_);
    }
    return FakeContext::Launch(kernel, config, params, stream);
  }
  void Release() {
    MutexLock lock(&mu_);
    released_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int launches_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
};

// A program may wait for an event while it has thousands of launches behind it.
TEST_F(SessionTest, WhatIsCompleteIsReportedWhileALongRowIsIssued) {
  HoldsUp device;
  HostedSession::Options options = OptionsOf();
  options.devices = {{&device}};
  Restart(std::move(options));
  LoadKernel();
  AddStream(kStream);
  const uint64_t first = Add(LaunchOn(kStream), params_);
  for (int i = 1; i < HoldsUp::kAt + 100; ++i) Add(LaunchOn(kStream), params_);
  const uint64_t sync = Add(cmd::StreamSync{kStream});
  ASSERT_TRUE(Send().ok());
  replies_.WaitFor([first](const Replies::Entry& entry) {
    return entry.id == ReplyId::kRetired && entry.seq > first;
  });
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
  device.Release();
  replies_.Wait(sync);
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
