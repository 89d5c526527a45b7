// Tests cmd::StreamCancel: what is dropped, what keeps its place, and what becomes of kernels that
// run. Host functions hold a stream's work back in the worker, and the fake device stalls.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kStream = 7;
constexpr uint64_t kOther = 9;
constexpr uint64_t kOnDevice = 10;  // kStream there, which is made first.
constexpr uint64_t kToken = 5;

// Loads kernels that ask whether to stop, and notes by which numbers they go.
class StoppingCode : public FakeContext, public device::AddedParameter, public device::KernelStops {
 public:
  const device::AddedParameter* added_parameter() const override { return this; }
  device::KernelStops* kernel_stops() override { return this; }
  bool TakeOff(std::vector<device::ParamLayout>*) const override { return true; }
  void AddTo(std::string*, const device::LaunchConfig&, uint32_t stop) const override {
    MutexLock lock(&mu_);
    launched_.push_back(stop);
  }
  uint32_t Take() override {
    MutexLock lock(&mu_);
    return ++taken_;
  }
  void Give(uint32_t) override {
    MutexLock lock(&mu_);
    ++given_;
  }
  CudaResult Set(uint32_t number, bool stopped) override {
    MutexLock lock(&mu_);
    sets_.emplace_back(number, stopped);
    return CudaResult::kSuccess;
  }

  std::vector<std::pair<uint32_t, bool>> sets() const {
    MutexLock lock(&mu_);
    return sets_;
  }
  std::vector<uint32_t> launched() const {
    MutexLock lock(&mu_);
    return launched_;
  }
  uint32_t given() const {
    MutexLock lock(&mu_);
    return given_;
  }

 private:
  mutable Mutex mu_;
  mutable std::vector<uint32_t> launched_ ABSL_GUARDED_BY(mu_);
  uint32_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t given_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::pair<uint32_t, bool>> sets_ ABSL_GUARDED_BY(mu_);
};

class SessionCancelTest : public SessionTest {
 protected:
  SessionCancelTest() { Begin(OptionsOf()); }

  void Begin(HostedSession::Options options) {
    options.end_work = [this](const std::string& why) {
      MutexLock lock(&mu_);
      ended_.push_back(why);
      changed_.NotifyAll();
    };
    Restart(std::move(options));
    LoadKernel();
    AddStream(kStream);
    Sync(kStream);
  }
  CudaResult Sync(uint64_t stream) {
    const uint64_t sync = Add(cmd::StreamSync{stream});
    EXPECT_TRUE(Send().ok());
    CudaResult result = CudaResult::kUnknown;
    replies_.Wait(sync, &result);
    return result;
  }
  void Cancel(uint64_t stream, bool waiting_only = false) {
    Add(cmd::StreamCancel{stream, waiting_only ? 1u : 0u, 0});
    ASSERT_TRUE(Send().ok());
  }
  int Issued(const std::string& what) {
    const std::vector<std::string> lines = context_.log();
    return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
      return absl::StartsWith(line, what + "@");
    }));
  }
  void AwaitIssued(const std::string& what, int count) {
    while (Issued(what) < count) sched_yield();
  }
  std::string AwaitEnd() {
    MutexLock lock(&mu_);
    while (ended_.empty()) changed_.Wait(&mu_);
    return ended_.front();
  }
  size_t ended() {
    MutexLock lock(&mu_);
    return ended_.size();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mu_);
};

TEST_F(SessionCancelTest, WorkThatHasNotBegunIsDropped) {
  for (const bool waiting_only : {false, true}) {
    const int before = Issued("launch") + Issued("set");
    Add(cmd::HostCall{kStream, kToken});
    for (int i = 0; i < 100; ++i) Add(LaunchOn(kStream), params_);
    Add(cmd::Memset{kStream, 0x1000, 4, 1, 1});
    const uint64_t copy = Add(cmd::CopyFromDevice{kStream, 0x1000, 16});
    ASSERT_TRUE(Send().ok());
    Cancel(kStream, waiting_only);
    Add(cmd::HostDone{kToken});
    EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
    EXPECT_EQ(Issued("launch") + Issued("set"), before);
    CudaResult result = CudaResult::kSuccess;
    replies_.Wait(copy, &result);
    EXPECT_EQ(result, kCancelled);
    EXPECT_EQ(ended(), 0u);
  }
}

TEST_F(SessionCancelTest, WhatComesLaterIsDone) {
  Add(cmd::HostCall{kStream, kToken});
  Add(LaunchOn(kStream, 3), params_);
  Cancel(kStream);
  Add(LaunchOn(kStream, 4), params_);
  Add(cmd::HostDone{kToken});
  EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
  const std::vector<std::string> lines = context_.log();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "launch@10 77x3"), 0);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "launch@10 77x4"), 1);
}

TEST_F(SessionCancelTest, EventsCountAsCompleteAndOtherStreamsGoOn) {
  AddStream(kOther);
  Add(cmd::EventCreate{40, 2});
  Add(cmd::HostCall{kStream, kToken});
  Add(LaunchOn(kStream), params_);
  Add(cmd::EventRecord{40, kStream});
  Add(cmd::StreamWaitEvent{kOther, 40});
  Add(LaunchOn(kOther), params_);
  ASSERT_TRUE(Send().ok());
  Cancel(kStream);
  Add(cmd::HostDone{kToken});
  EXPECT_EQ(Sync(kOther), CudaResult::kSuccess);
  const uint64_t event = Add(cmd::EventSync{40});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(event);
  EXPECT_EQ(Issued("launch"), 1);
}

TEST_F(SessionCancelTest, AStreamThatWaitsForAnotherOneIsFree) {
  AddStream(kOther);
  Add(cmd::EventCreate{40, 2});
  Add(cmd::HostCall{kStream, kToken});
  Add(cmd::EventRecord{40, kStream});
  Add(cmd::StreamWaitEvent{kOther, 40});
  Add(LaunchOn(kOther), params_);
  ASSERT_TRUE(Send().ok());
  Cancel(kOther);
  EXPECT_EQ(Sync(kOther), CudaResult::kSuccess);
  EXPECT_EQ(Issued("launch"), 0);
  Add(cmd::HostDone{kToken});
  EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
}

// The legacy stream names what its tasks come after once. A task that is dropped leaves that to the
// next one.
TEST_F(SessionCancelTest, WhatADroppedTaskCameAfterComesBeforeTheNextOne) {
  AddStream(kOther, 0);
  Add(cmd::HostCall{kOther, kToken});
  Add(LaunchOn(kOther, 3), params_);
  Add(LaunchOn(1, 4), params_);
  ASSERT_TRUE(Send().ok());
  Cancel(1);
  Add(LaunchOn(1, 5), params_);
  Add(cmd::HostDone{kToken});
  EXPECT_EQ(Sync(1), CudaResult::kSuccess);
  std::vector<std::string> launches = context_.log();
  std::erase_if(launches, [](const auto& line) { return !absl::StartsWith(line, "launch@"); });
  EXPECT_EQ(launches, (std::vector<std::string>{"launch@11 77x3", "launch@1 77x5"}));
}

TEST_F(SessionCancelTest, WhatRunsAndCannotBeStoppedEndsTheSession) {
  context_.Stall(kOnDevice);
  Add(LaunchOn(kStream), params_);
  ASSERT_TRUE(Send().ok());
  AwaitIssued("launch", 1);
  Cancel(kStream);
  EXPECT_NE(AwaitEnd().find("cancelled"), std::string::npos);
  context_.Resume(kOnDevice);
  EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
  EXPECT_EQ(ended(), 1u);
}

TEST_F(SessionCancelTest, WhatRunsGoesOnWhenOnlyWhatWaitsIsCancelled) {
  context_.Stall(kOnDevice);
  Add(LaunchOn(kStream), params_);
  ASSERT_TRUE(Send().ok());
  AwaitIssued("launch", 1);
  Cancel(kStream, /*waiting_only=*/true);
  Add(LaunchOn(kStream), params_);
  ASSERT_TRUE(Send().ok());
  AwaitIssued("launch", 2);  // It does not wait for what runs.
  context_.Resume(kOnDevice);
  EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
  EXPECT_EQ(ended(), 0u);
}

TEST_F(SessionCancelTest, KernelsThatAskAreStoppedAndTheirStreamGoesOn) {
  StoppingCode code;
  HostedSession::Options options = OptionsOf();
  options.devices[0].code = &code;
  Begin(std::move(options));
  const uint64_t on_device = kOnDevice + 1;  // The second session's stream.
  AddStream(kOther);
  Add(LaunchOn(kOther), params_);
  ASSERT_EQ(Sync(kOther), CudaResult::kSuccess);
  context_.Stall(on_device);
  Add(LaunchOn(kStream), params_);
  ASSERT_TRUE(Send().ok());
  while (code.launched().size() < 2) sched_yield();
  for (int i = 0; i < 100; ++i) Cancel(kStream);
  while (code.sets().empty()) sched_yield();
  EXPECT_EQ(code.sets()[0], (std::pair<uint32_t, bool>{2, true}));
  Add(LaunchOn(kStream), params_);
  ASSERT_TRUE(Send().ok());
  // The later launch waits until nothing is left.
  EXPECT_EQ(code.launched().size(), 2u);
  context_.Resume(on_device);
  EXPECT_EQ(Sync(kStream), CudaResult::kSuccess);
  EXPECT_EQ(code.launched(), (std::vector<uint32_t>{1, 2, 2}));
  EXPECT_EQ(code.sets().back(), (std::pair<uint32_t, bool>{2, false}));
  EXPECT_EQ(ended(), 0u);
  Add(cmd::StreamDestroy{kStream});
  ASSERT_TRUE(Send().ok());
  while (code.given() == 0) sched_yield();
  session_ = nullptr;
}

TEST_F(SessionCancelTest, StreamsThatThereAreNotAreRefused) {
  const uint64_t seq = Add(cmd::StreamCancel{1234, 0, 0});
  const uint64_t flags = Add(cmd::StreamCancel{kStream, 2, 0});
  ASSERT_TRUE(Send().ok());
  for (const uint64_t refused : {seq, flags}) {
    replies_.WaitFor([&](const auto& e) { return e.id == ReplyId::kFailed && e.seq == refused; });
  }
}

}  // namespace
}  // namespace warpline::worker
