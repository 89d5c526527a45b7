// With a dispatcher, pages that workers write, and a driver that counts what they really do.
#include "server/gpu_server/usage_check/driver_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/unique_fd.h"
#include "policy/policy.h"
#include "server/gpu_server/nvml/testing/fake_nvml.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::server {
namespace {

using dispatch::Dispatcher;
using dispatch::DispatchPage;
using dispatch::DispatchRegistration;
using dispatch::EngineSlot;
using dispatch::Grant;

constexpr int64_t kMs = 1'000'000;
constexpr size_t kCompute = dispatch::EngineIndex(Engine::kCompute);

int64_t now_ns = 0;
int64_t Now() { return now_ns; }
int64_t NowUs() { return now_ns / 1000; }

// A worker that always has work, and does it in its turns; or whenever it likes.
struct Worker {
  Worker(Dispatcher* dispatcher, uint64_t session, pid_t number, uint32_t weight, bool is_honest)
      : pid(number), honest(is_honest) {
    registration = *dispatcher->Join({.gpus = {0},
                                      .tenant = "tenant " + std::to_string(session),
                                      .slice = "lease " + std::to_string(session),
                                      .compute_weight = weight,
                                      .session = session});
    registration->SetWorker(pid);
    page = *DispatchPage::Attach(UniqueFd(dup(registration->fd())));
  }

  EngineSlot& slot() { return page->device(0)[kCompute]; }

  // Whether it has a kernel on the device for the next moment; says so if it is honest.
  bool Step() {
    if (!honest) return true;
    const Grant::State state = slot().grant().state();
    const bool runs = state != Grant::State::kClosed;
    slot().worker.executors_waiting = runs ? 0 : 1;
    if (runs && slot().worker.executors_in_flight == 0) slot().worker.busy_since_ns = now_ns;
    slot().worker.executors_in_flight = runs ? 1 : 0;
    return runs;
  }

  const pid_t pid;
  const bool honest;
  std::unique_ptr<DispatchRegistration> registration;
  std::unique_ptr<DispatchPage> page;
};

class DriverWatchTest : public ::testing::Test {
 protected:
  DriverWatchTest() {
    now_ns = 1'000'000 * kMs;
    dispatch::DispatcherOptions options;
    options.clock = &Now;
    options.wall_clock_us = &NowUs;
    options.has_thread = false;
    dispatcher_ = *Dispatcher::Create(std::move(options));
  }

  void Watch() {
    DriverWatchOptions options;
    options.pci_bus_ids = {{0, "bus0"}};
    options.dispatcher = dispatcher_.get();
    options.load = [this] { return nvml::Library::Start(nvml_.lookup()); };
    options.end_session = [this](uint64_t session, const std::string& reason) {
      ended_[session] = reason;
    };
    options.clock = &Now;
    options.has_thread = false;
    watch_ = *DriverWatch::Create(std::move(options));
  }

  Worker* Add(uint64_t session, pid_t pid, uint32_t weight, bool honest) {
    return workers_
        .emplace_back(std::make_unique<Worker>(dispatcher_.get(), session, pid, weight, honest))
        .get();
  }

  // Time passes: the device is shared among those that have kernels on it, by time slicing, and the
  // driver says each fifth of a second who is on it.
  void Run(int64_t ns) {
    for (const int64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns += kMs / 2;
      dispatcher_->LookNow();
      std::vector<pid_t> running;
      for (const auto& worker : workers_) {
        if (worker->Step()) running.push_back(worker->pid);
      }
      if (now_ns % (200 * kMs) == 0) {
        if (beside_ != 0 && random_() % 3 != 0) running.push_back(beside_);
        std::vector<nvml::FakeNvml::Use> uses;
        if (!running.empty()) {
          uses.push_back({static_cast<uint32_t>(running[random_() % running.size()]),
                          static_cast<uint64_t>(now_ns / 1000), 99});
        }
        nvml_.SetUses(&device_, std::move(uses));
      }
      if (now_ns % (250 * kMs) == 0 && watch_ != nullptr) watch_->ReadNow();
    }
  }

  nvml::FakeNvml nvml_;
  nvml::FakeNvml::Device& device_ = nvml_.AddDevice("bus0");
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::minstd_rand random_{1};
  pid_t beside_ = 0;  // A process that has kernels on the device for two thirds of the time.
  std::map<uint64_t, std::string> ended_;
  std::unique_ptr<DriverWatch> watch_;
};

TEST_F(DriverWatchTest, AWorkerThatNeverAsksIsEndedAndTheHonestOnesAreNot) {
  Add(1, 101, /*weight=*/1, /*honest=*/false);
  Add(2, 102, /*weight=*/3, /*honest=*/true);
  Add(3, 103, /*weight=*/3, /*honest=*/true);
  Watch();
  Run(5'000 * kMs);
  EXPECT_TRUE(ended_.empty());
  Run(95'000 * kMs);
  ASSERT_EQ(ended_.size(), 1u);
  ASSERT_TRUE(ended_.contains(1));
  EXPECT_THAT(ended_[1],
              ::testing::MatchesRegex(
                  "the session does not keep to its turns: its worker had .. % of gpu 0 by the "
                  "driver's figures, and 0 % by turns, of 14 % that it was promised, over .*s"));
  // What it stole is in its bill.
  EXPECT_GE(workers_[0]->registration->usage()[kCompute].busy_ns, 4'000 * kMs);
}

TEST_F(DriverWatchTest, HonestWorkersOfAnyWeightsAreLeftAlone) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Add(i, static_cast<pid_t>(100 + i), static_cast<uint32_t>(i * i), /*honest=*/true);
  }
  Watch();
  Run(60'000 * kMs);
  EXPECT_TRUE(ended_.empty());
  EXPECT_GT(nvml_.asked(), 100);
}

// What it steals is its debt: who asks, too, comes later.
TEST_F(DriverWatchTest, WhoStealsBesidesItsTurnsGetsFewerOfThem) {
  const auto turns_of_second = [this](bool watched) {
    workers_.clear();
    watch_.reset();
    Worker* const thief = Add(1, 101, 1, /*honest=*/true);
    Add(2, 102, 1, /*honest=*/true);
    beside_ = 101;
    if (watched) Watch();
    int64_t given_ns = 0;
    for (int i = 0; i < 1'200'000; ++i) {
      Run(kMs / 2);
      // By then it is known to be one.
      if (i < 600'000) continue;
      if (thief->slot().grant().state() == Grant::State::kTurn) given_ns += kMs / 2;
    }
    return given_ns;
  };
  const int64_t without_ns = turns_of_second(false);
  const int64_t with_ns = turns_of_second(true);
  EXPECT_LT(with_ns, without_ns * 3 / 4) << without_ns;
}

TEST_F(DriverWatchTest, AGpuOfOneSliceIsNotRead) {
  Add(1, 101, 1, /*honest=*/false);
  Watch();
  Run(5'000 * kMs);
  EXPECT_EQ(nvml_.asked(), 0);
}

TEST_F(DriverWatchTest, ADriverThatDoesNotSayIsAskedOnce) {
  device_.uses_error = 3;
  Add(1, 101, 1, /*honest=*/false);
  Add(2, 102, 3, /*honest=*/true);
  Watch();
  Run(20'000 * kMs);
  EXPECT_EQ(nvml_.asked(), 1);
  EXPECT_TRUE(ended_.empty());
}

// Keeps what it was told of power, and is asked about who is alone.
class Told : public policy::Policy {
 public:
  std::string_view name() const override { return "told"; }
  policy::Wishes wishes() const override { return {.asked_always = true}; }
  policy::Verdict OnPower(const policy::PowerContext& context) override {
    power = context;
    return {};
  }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    dispatch = context;
    return {};
  }

  policy::PowerContext power;
  policy::DispatchContext dispatch;
};

TEST_F(DriverWatchTest, PoliciesAreToldWhatTheDeviceDraws) {
  const auto told = std::make_shared<Told>();
  dispatcher_->SetPolicy(told);
  device_.power_mw = 412'000;
  device_.limit_mw = 700'000;
  device_.temperature_c = 71;
  Add(1, 101, 1, /*honest=*/true);
  Watch();
  Run(1'000 * kMs);
  EXPECT_EQ(told->power.power_mw, 412'000u);
  EXPECT_EQ(told->power.power_limit_mw, 700'000u);
  EXPECT_EQ(told->power.temperature_c, 71);
  EXPECT_EQ(told->dispatch.power_mw, 412'000u);
  nvml_.SetPower(&device_, 0);
  Run(1'000 * kMs);
  EXPECT_EQ(told->power.power_mw, 0u);
  EXPECT_EQ(told->dispatch.power_mw, 0u);
}

TEST_F(DriverWatchTest, WithoutNvmlThereIsNothingToWatch) {
  DriverWatchOptions options;
  options.dispatcher = dispatcher_.get();
  options.load = [] { return absl::UnavailableError("none here"); };
  options.has_thread = false;
  const auto watch = *DriverWatch::Create(options);
  EXPECT_FALSE(watch->ReadNow());
  EXPECT_FALSE(watch->ReadNow());
  options.has_thread = true;
  EXPECT_TRUE(DriverWatch::Create(options).ok());
}

}  // namespace
}  // namespace warpline::server
