// Tests that the priorities of a session's streams order its launches.
#include <sched.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kUsual = 7;
constexpr uint64_t kUrgent = 9;
constexpr uint64_t kThird = 11;
// Their numbers on the device, in the order in which they are made.
constexpr uint64_t kUsualOnDevice = 10;
constexpr uint64_t kUrgentOnDevice = 11;
// Commands in flight beside a higher priority while it is not known how long they take.
constexpr int kFew = 8;

// No time passes, so that no executor has made way for too long.
int64_t Frozen() { return 1'000'000'000; }

class SessionPrioritiesTest : public SessionTest {
 protected:
  SessionPrioritiesTest() { StartOn(/*device_orders=*/false); }
  ~SessionPrioritiesTest() override { session_.reset(); }

  void StartOn(bool device_orders) {
    context_.OrderByPriority(device_orders);
    session_.reset();
    auto page = dispatch::DispatchPage::Create();
    ASSERT_TRUE(page.ok());
    page_ = page->get();
    gates_ = std::make_unique<dispatch::SessionGates>(*std::move(page), &Frozen);
    HostedSession::Options options = OptionsOf();
    options.gates = gates_.get();
    Restart(std::move(options));
    LoadKernel();
  }
  // Makes both streams, and waits for them.
  void MakeStreams(int32_t priority) {
    Add(cmd::StreamCreate{kUsual, 1, 0});
    Sync(kUsual);
    Add(cmd::StreamCreate{kUrgent, 1, priority});
    Sync(kUrgent);
  }
  void Sync(uint64_t stream) {
    const uint64_t sync = Add(cmd::StreamSync{stream});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(sync);
  }
  void Launch(uint64_t stream, int count) {
    for (int i = 0; i < count; ++i) Add(LaunchOn(stream), params_);
    ASSERT_TRUE(Send().ok());
  }
  void SetPriority(uint64_t stream, int32_t priority) {
    std::string value(64, '\0');
    std::memcpy(value.data(), &priority, sizeof(priority));
    Add(cmd::StreamSetAttribute{stream, 8, 0}, value);
  }
  dispatch::EngineSlot& slot() { return page_->device(0)[0]; }

  int Launched(uint64_t on_device) {
    int count = 0;
    for (const std::string& line : context_.log()) {
      if (absl::StartsWith(line, absl::StrCat("launch@", on_device, " "))) ++count;
    }
    return count;
  }
  void AwaitLaunched(uint64_t on_device, int count) {
    while (Launched(on_device) < count) sched_yield();
  }
  // Returns the stream to which the first kernel went; 0 for none.
  uint64_t FirstLaunched() {
    for (const std::string& line : context_.log()) {
      if (absl::StartsWith(line, "launch@")) return std::stoull(line.substr(7));
    }
    return 0;
  }

  dispatch::DispatchPage* page_ = nullptr;
  std::unique_ptr<dispatch::SessionGates> gates_;
};

TEST_F(SessionPrioritiesTest, TheStreamOfHigherPriorityBeginsATurn) {
  MakeStreams(-1);
  slot().SetGrant(dispatch::Grant::Closed(0));
  Launch(kUsual, 1);
  while (slot().worker.executors_waiting != 1) sched_yield();
  Launch(kUrgent, 1);
  while (slot().worker.executors_waiting != 2) sched_yield();
  slot().SetGrant(dispatch::Grant::Turn(Frozen() + 1'000'000'000));
  AwaitLaunched(kUsualOnDevice, 1);
  EXPECT_EQ(FirstLaunched(), kUrgentOnDevice);
}

TEST_F(SessionPrioritiesTest, ALaunchThatWaitsIsShownToTheServer) {
  MakeStreams(0);
  slot().SetGrant(dispatch::Grant::Closed(0));
  cmd::Launch launch = LaunchOn(kUsual, /*grid=*/6);
  launch.grid_y = 2;
  launch.grid_z = launch.block_y = launch.block_z = 1;
  launch.block_x = 64;
  launch.dynamic_shared_bytes = 512;
  Add(launch, params_);
  ASSERT_TRUE(Send().ok());
  const uint64_t name = dispatch::KernelNameHash("kernel");
  while (page_->kernel(0).Read().name != name) sched_yield();
  // The attributes of the fake kernel are ten times their numbers.
  const dispatch::KernelFacts expected = {.name = name,
                                          .grid_blocks = 12,
                                          .expected_ns = 0,
                                          .block_threads = 64,
                                          .registers = 40,
                                          .shared_bytes = 10 + 512};
  EXPECT_EQ(page_->kernel(0).Read(), expected);
  // Other work that waits is no kernel.
  slot().SetGrant(dispatch::Grant::Open());
  Sync(kUsual);
  slot().SetGrant(dispatch::Grant::Closed(0));
  Add(cmd::Memset{kUsual, 0x1000, 1, 1, 16});
  ASSERT_TRUE(Send().ok());
  while (page_->kernel(0).Read().name != 0) sched_yield();
}

TEST_F(SessionPrioritiesTest, TheOthersGoOnWithLittleInFlight) {
  MakeStreams(-1);
  Add(cmd::StreamCreate{kThird, 1, -1});
  Sync(kThird);
  context_.Stall(kUrgentOnDevice);
  context_.Stall(kUsualOnDevice);
  Launch(kUrgent, 1);
  AwaitLaunched(kUrgentOnDevice, 1);
  Launch(kUsual, 40);
  AwaitLaunched(kUsualOnDevice, kFew);
  for (int i = 0; i < 50; ++i) Sync(kThird);
  EXPECT_EQ(Launched(kUsualOnDevice), kFew);
  // Each of them is launched in the end, while the urgent kernel still runs.
  context_.Resume(kUsualOnDevice);
  AwaitLaunched(kUsualOnDevice, 40);
  context_.Resume(kUrgentOnDevice);
  Sync(kUrgent);
  Sync(kUsual);
}

TEST_F(SessionPrioritiesTest, AnAttributeRaisesAStreamAsWell) {
  MakeStreams(0);
  Add(cmd::StreamCreate{kThird, 1, 0});
  Sync(kThird);
  context_.Stall(kUrgentOnDevice);
  context_.Stall(kUsualOnDevice);
  SetPriority(kUrgent, -5);
  Launch(kUrgent, 1);
  AwaitLaunched(kUrgentOnDevice, 1);
  EXPECT_EQ(page_->ranks(0).Highest(), 5u);
  Launch(kUsual, 40);
  AwaitLaunched(kUsualOnDevice, kFew);
  for (int i = 0; i < 50; ++i) Sync(kThird);
  EXPECT_EQ(Launched(kUsualOnDevice), kFew);
  context_.Resume(kUsualOnDevice);
  context_.Resume(kUrgentOnDevice);
  Sync(kUsual);
}

TEST_F(SessionPrioritiesTest, ADeviceThatOrdersKernelsIsToldAndLeftAlone) {
  StartOn(/*device_orders=*/true);
  const uint64_t usual = kUsualOnDevice;
  MakeStreams(-3);
  const std::string told = absl::StrCat("create@", kUrgentOnDevice, " -3");
  bool was_told = false;
  for (const std::string& line : context_.log()) was_told |= line == told;
  EXPECT_TRUE(was_told);
  context_.Stall(kUrgentOnDevice);
  context_.Stall(usual);
  Launch(kUrgent, 1);
  AwaitLaunched(kUrgentOnDevice, 1);
  Launch(kUsual, 40);
  AwaitLaunched(usual, 40);
  context_.Resume(usual);
  context_.Resume(kUrgentOnDevice);
  Sync(kUrgent);
}

}  // namespace
}  // namespace warpline::worker
