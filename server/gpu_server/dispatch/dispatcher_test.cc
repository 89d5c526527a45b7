#include "server/gpu_server/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "policy/builtin.h"
#include "server/gpu_server/dispatch/dispatcher_fixture.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"

namespace warpline::dispatch {
namespace {

TEST(Dispatcher, LoneSessionIsOpenAndNobodyLooks) {
  const auto dispatcher = NewDispatcher();
  const auto registration = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  EXPECT_EQ(dispatcher->LookNow(), absl::InfiniteDuration());
  const auto page = WorkersPage(*registration);
  EXPECT_TRUE(page->device(0)[kCompute].grant().open());
  page->device(0)[kCompute].worker.executors_in_flight = 1;
  page->device(0)[kCompute].worker.busy_since_ns = now_ns.load();
  registration->usage();
  now_ns += 5 * kMs;
  EXPECT_EQ(registration->usage()[kCompute].busy_ns, 5 * kMs);
}

TEST(Dispatcher, SessionsOfOneSliceShareAsTheyLike) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  EXPECT_EQ(dispatcher->LookNow(), absl::InfiniteDuration());
  EXPECT_TRUE(WorkersPage(*second)->device(0)[kCompute].grant().open());
}

// They need no turns among themselves, and divide the time that the device works for them.
TEST(Dispatcher, SessionsOfOneContextAreChargedByTheirMultiprocessors) {
  const auto dispatcher = NewDispatcher();
  const auto large = *dispatcher->Join({.gpus = {0}, .slice = "a", .shares_context = true});
  const auto small = *dispatcher->Join({.gpus = {0}, .slice = "b", .shares_context = true});
  const auto apart = *dispatcher->Join({.gpus = {0}, .slice = "c"});
  const auto pages = {WorkersPage(*large), WorkersPage(*small), WorkersPage(*apart)};
  const auto work = [&](const std::unique_ptr<DispatchPage>& page, uint32_t share) {
    WorkerLine& line = page->device(0)[kCompute].worker;
    line.executors_in_flight = 1;
    line.busy_since_ns = now_ns.load();
    line.share = share;
  };
  dispatcher->LookNow();
  work(pages.begin()[0], 900);
  work(pages.begin()[1], 100);
  // A worker of a tenant's own may write anything, which is nothing to the others.
  pages.begin()[2]->device(0)[kCompute].worker.share = 1000;
  for (int i = 0; i < 100; ++i) {
    now_ns += kMs;
    dispatcher->LookNow();
  }
  EXPECT_EQ(large->usage()[kCompute].busy_ns, 90 * kMs);
  EXPECT_EQ(small->usage()[kCompute].busy_ns, 10 * kMs);
  EXPECT_EQ(apart->usage()[kCompute].busy_ns, 0);
  // In turns with somebody else, too.
  work(pages.begin()[2], 1000);
  for (int i = 0; i < 1000; ++i) {
    now_ns += kMs;
    dispatcher->LookNow();
  }
  const auto had = [](DispatchRegistration& registration) {
    return static_cast<double>(registration.usage()[kCompute].busy_ns);
  };
  EXPECT_NEAR(had(*large) / had(*small), 9, 0.1);
  EXPECT_GT(had(*apart), 0);
}

// Slices that name one ledger have turns each by itself, and its weight together.
TEST(Dispatcher, SlicesOfOneLedgerHaveItsWeightTogether) {
  const auto dispatcher = NewDispatcher();
  std::vector<std::unique_ptr<DispatchRegistration>> registrations;
  for (const char* slice : {"a", "b", "c"}) {
    registrations.push_back(*dispatcher->Join({.gpus = {0},
                                               .slice = slice,
                                               .compute_ledger = "tenant t",
                                               .session = registrations.size() + 1}));
  }
  registrations.push_back(*dispatcher->Join({.gpus = {0}, .slice = "d", .session = 4}));
  std::vector<std::unique_ptr<DispatchPage>> pages;
  for (const auto& registration : registrations) pages.push_back(WorkersPage(*registration));
  for (int i = 0; i < 50'000; ++i) {
    for (const auto& page : pages) {
      EngineSlot& slot = page->device(0)[kCompute];
      slot.worker.executors_waiting = 1;
      const bool closed = slot.grant().state() == Grant::State::kClosed;
      slot.worker.executors_in_flight = closed ? 0 : 1;
      if (!closed) slot.worker.busy_since_ns = now_ns.load();
    }
    now_ns += kMs / 10;
    dispatcher->LookNow();
  }
  std::vector<double> had;
  for (const auto& registration : registrations) {
    had.push_back(static_cast<double>(registration->usage()[kCompute].busy_ns) / (5000.0 * kMs));
  }
  EXPECT_NEAR(had[3], 0.5, 0.03);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(had[i], 0.5 / 3, 0.03) << i;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pages[i]->device(0)[kCompute].server.sharers, 3u);
  EXPECT_EQ(pages[3]->device(0)[kCompute].server.sharers, 1u);
  // The check of the driver's figures holds them to no more than that together, either.
  uint32_t shares = 0;
  const auto uses = dispatcher->Uses();
  for (const SliceUse& use : uses.at(0).slices) shares += use.share;
  EXPECT_NEAR(shares, 1000, 5);
}

// The driver runs their processes at once, whatever their leases are.
TEST(Dispatcher, SlicesOfOneGroupHaveTurnsTogether) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a", .group = "g"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b", .group = "g"});
  const auto apart = *dispatcher->Join({.gpus = {0}, .slice = "c"});
  const auto pages = {WorkersPage(*first), WorkersPage(*second), WorkersPage(*apart)};
  const auto slot = [&](int n) -> EngineSlot& { return pages.begin()[n]->device(0)[kCompute]; };
  const auto look = [&](int count) {
    for (int i = 0; i < count; ++i) {
      now_ns += kMs / 10;
      dispatcher->LookNow();
    }
  };
  slot(0).worker.executors_in_flight = 1;
  slot(1).worker.executors_in_flight = 1;
  look(10);
  EXPECT_EQ(slot(0).grant().state(), slot(1).grant().state());
  // Somebody else comes, and has turns of its own.
  slot(2).worker.executors_waiting = 1;
  bool other = false;
  for (int i = 0; i < 1000; ++i) {
    look(1);
    EXPECT_EQ(slot(0).grant().state(), slot(1).grant().state()) << i;
    const bool turn = slot(2).grant().state() != slot(0).grant().state();
    other |= turn && slot(2).grant().state() != Grant::State::kClosed;
    slot(0).worker.executors_in_flight = slot(1).worker.executors_in_flight =
        slot(0).grant().state() == Grant::State::kClosed ? 0 : 1;
    slot(0).worker.executors_waiting = slot(1).worker.executors_waiting = 1;
  }
  EXPECT_TRUE(other);
}

// Which of a group's processes the driver names is chance: what it says is held against what all
// had.
TEST(Dispatcher, AGroupsUseIsThatOfItsSlicesTogether) {
  const auto dispatcher = NewDispatcher();
  const auto first =
      *dispatcher->Join({.gpus = {0}, .tenant = "t", .slice = "a", .group = "g", .session = 1});
  const auto second =
      *dispatcher->Join({.gpus = {0}, .tenant = "t", .slice = "b", .group = "g", .session = 2});
  const auto apart = *dispatcher->Join({.gpus = {0}, .tenant = "u", .slice = "c", .session = 3});
  first->SetWorker(101, /*server=*/110);
  second->SetWorker(102, /*server=*/110);
  apart->SetWorker(103);
  dispatcher->LookNow();
  const GpuUse use = dispatcher->Uses().at(0);
  ASSERT_EQ(use.slices.size(), 2u);
  EXPECT_EQ(use.slices[0].tenant, "u");
  EXPECT_EQ(use.slices[0].workers.size(), 1u);
  EXPECT_EQ(use.slices[1].tenant, "t");
  ASSERT_EQ(use.slices[1].workers.size(), 3u);
  EXPECT_EQ(use.slices[1].workers[0].pid, 101);
  EXPECT_EQ(use.slices[1].workers[1].pid, 110);
  EXPECT_EQ(use.slices[1].workers[1].session, 0u);
  EXPECT_EQ(use.slices[1].workers[2].pid, 102);
}

TEST(Dispatcher, SlicesThatWantTheSameEngineTakeTurns) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {3, 0}, .slice = "b"});
  const auto elsewhere = *dispatcher->Join({.gpus = {1}, .slice = "c"});
  EXPECT_EQ(dispatcher->LookNow(), absl::Milliseconds(10));
  const auto one = WorkersPage(*first);
  const auto two = WorkersPage(*second);
  EngineSlot& of_one = one->device(0)[kCompute];
  EngineSlot& of_two = two->device(1)[kCompute];
  of_one.worker.executors_in_flight = 1;
  now_ns += kMs;
  EXPECT_EQ(dispatcher->LookNow(), absl::Milliseconds(1));
  EXPECT_EQ(of_one.grant().state(), Grant::State::kShared);
  of_two.worker.executors_waiting = 1;
  now_ns += kMs;
  EXPECT_LE(dispatcher->LookNow(), absl::Microseconds(100));
  of_one.worker.executors_in_flight = 0;
  of_one.worker.executors_waiting = 1;
  now_ns += kMs / 10;
  dispatcher->LookNow();
  EXPECT_NE(of_one.grant().state(), of_two.grant().state());
  // Other engines and other devices are nobody's.
  EXPECT_EQ(one->device(0)[EngineIndex(Engine::kCopyIn)].grant().state(), Grant::State::kShared);
  EXPECT_TRUE(two->device(0)[kCompute].grant().open());
  EXPECT_TRUE(WorkersPage(*elsewhere)->device(0)[kCompute].grant().open());
}

TEST(Dispatcher, WhoStaysIsOpenWhenTheOtherLeaves) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
  const auto one = WorkersPage(*first);
  one->device(0)[kCompute].worker.executors_waiting = 1;
  WorkersPage(*second)->device(0)[kCompute].worker.executors_in_flight = 1;
  for (int i = 0; i < 3; ++i) {
    now_ns += kMs;
    dispatcher->LookNow();
  }
  second.reset();
  EXPECT_TRUE(one->device(0)[kCompute].grant().open());
  EXPECT_EQ(dispatcher->LookNow(), absl::InfiniteDuration());
}

TEST(Dispatcher, NextWorkerBeginsWithNothingInFlight) {
  const auto dispatcher = NewDispatcher();
  const auto registration = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto page = WorkersPage(*registration);
  page->device(0)[kCompute].worker.executors_in_flight = 3;
  page->device(0)[kCompute].worker.executors_waiting = 2;
  registration->ForgetWorker();
  EXPECT_EQ(page->device(0)[kCompute].worker.executors_in_flight, 0u);
  EXPECT_EQ(page->device(0)[kCompute].worker.executors_waiting, 0u);
}

TEST(Dispatcher, WhatWorkersWriteAnywhereEndsNobody) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
  const auto page = WorkersPage(*first);
  uint64_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    for (size_t device = 0; device < kMaxSessionDevices; ++device) {
      auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(&page->device(device));
      for (size_t word = 0; word < sizeof(DeviceSlots) / 8; ++word) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 61 == 0) words[word].store(random, std::memory_order_relaxed);
      }
    }
    now_ns += kMs / 10;
    dispatcher->LookNow();
  }
  EXPECT_LE(first->usage()[kCompute].busy_ns, 201 * kMs);
  EXPECT_GE(first->usage()[kCompute].busy_ns, 0);
}

TEST(Dispatcher, PolicyIsSwappedWhileSessionsTakeTurns) {
  const auto dispatcher = NewDispatcher();
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
  const auto one = WorkersPage(*first);
  const auto two = WorkersPage(*second);
  one->device(0)[kCompute].worker.executors_waiting = 1;
  two->device(0)[kCompute].worker.executors_waiting = 1;
  for (int i = 0; i < 100; ++i) {
    now_ns += kMs / 10;
    dispatcher->LookNow();
    if (i != 50) continue;
    const auto former = dispatcher->SetPolicy(*policy::MakePolicy("fifo"));
    EXPECT_EQ(former->name(), "band");
  }
  EXPECT_EQ(dispatcher->SetPolicy(*policy::MakePolicy("band"))->name(), "fifo");
}

// Has everybody wait.
class Endless : public policy::Policy {
 public:
  std::string_view name() const override { return "endless"; }
  policy::Verdict OnDispatch(const policy::DispatchContext&) override {
    ++asked;
    return policy::Verdict::Hold(1'000'000);
  }

  int asked = 0;
};

TEST(Dispatcher, APolicyThatHasEverybodyWaitIsReplaced) {
  now_ns = 1000 * kMs;
  std::string why;
  std::shared_ptr<policy::Policy> failed;
  DispatcherOptions options;
  options.has_thread = false;
  options.clock = &Now;
  options.policy_failed = [&](const std::shared_ptr<policy::Policy>& policy,
                              const std::string& reason) {
    failed = policy;
    why = reason;
  };
  const auto dispatcher = *Dispatcher::Create(options);
  const auto endless = std::make_shared<Endless>();
  dispatcher->SetPolicy(endless);
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
  const auto one = WorkersPage(*first);
  const auto two = WorkersPage(*second);
  one->device(0)[kCompute].worker.executors_waiting = 1;
  two->device(0)[kCompute].worker.executors_waiting = 1;
  const int64_t began_ns = now_ns;
  while (failed == nullptr && now_ns < began_ns + 1000 * kMs) {
    now_ns += kMs / 10;
    dispatcher->LookNow();
  }
  EXPECT_EQ(failed, endless);
  EXPECT_GT(endless->asked, 2);
  EXPECT_LE(now_ns - began_ns, 100 * kMs);
  EXPECT_GE(now_ns - began_ns, 80 * kMs);
  EXPECT_EQ(why, "it has had everybody wait for gpu 0 for 80ms");
  // BAND gives somebody a turn, and is not taken for the one that failed.
  failed = nullptr;
  const auto has_turn = [&](const auto& page) {
    return page->device(0)[kCompute].grant().state() == Grant::State::kTurn;
  };
  for (int i = 0; i < 20 && !has_turn(one) && !has_turn(two); ++i) {
    now_ns += kMs / 10;
    dispatcher->LookNow();
  }
  EXPECT_TRUE(has_turn(one) || has_turn(two));
  EXPECT_EQ(failed, nullptr);
  EXPECT_EQ(dispatcher->SetPolicy(std::make_shared<Endless>())->name(), "band");
}

// An urgent session that comes every 10 ms, beside one that always has work.
class Urgent : public testing::Test {
 protected:
  void Start(const std::string& policy, int64_t expect_ns) {
    comes_.reset();
    stays_.reset();
    now_ns = 1000 * kMs;
    DispatcherOptions options;
    options.policy = policy;
    options.arbiter.expect_ns = expect_ns;
    options.clock = &Now;
    options.has_thread = false;
    dispatcher_ = *Dispatcher::Create(options);
    comes_ = *dispatcher_->Join(
        {.gpus = {0}, .slice = "a", .priority = 10, .period_ns = 10 * kMs, .budget_ns = 4 * kMs});
    stays_ = *dispatcher_->Join({.gpus = {0}, .slice = "b"});
  }

  // For how many of all looks the one that stays was to have only a little in flight.
  int Briefly(int looks) {
    const auto page = WorkersPage(*comes_);
    const auto other = WorkersPage(*stays_);
    EngineSlot& comes = page->device(0)[kCompute];
    EngineSlot& stays = other->device(0)[kCompute];
    int brief = 0;
    int64_t works_until_ns = 0;
    for (int i = 0; i < looks; ++i) {
      now_ns += kMs / 10;
      if (now_ns % (10 * kMs) == 0) comes.worker.executors_waiting = 1;
      if (comes.worker.executors_waiting == 1 && comes.grant().state() == Grant::State::kTurn) {
        comes.worker.executors_waiting = 0;
        comes.worker.executors_in_flight = 1;
        works_until_ns = now_ns + kMs;
      } else if (comes.worker.executors_in_flight == 1 && now_ns >= works_until_ns) {
        comes.worker.executors_in_flight = 0;
        ++comes.worker.commands;
      }
      const Grant::State state = stays.grant().state();
      stays.worker.executors_in_flight = state == Grant::State::kClosed ? 0 : 1;
      stays.worker.executors_waiting = state == Grant::State::kClosed ? 1 : 0;
      dispatcher_->LookNow();
      EXPECT_FALSE(comes.grant().brief());
      brief += stays.grant().brief() ? 1 : 0;
    }
    return brief;
  }

  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<DispatchRegistration> comes_;
  std::unique_ptr<DispatchRegistration> stays_;
};

TEST_F(Urgent, WhoComesRegularlyHasOthersGrantedBrieflyShortlyBefore) {
  for (const char* policy : {"priority", "reservation"}) {
    Start(policy, 3 * kMs);
    // Nothing is known of it yet.
    EXPECT_EQ(Briefly(800), 0) << policy;
    EXPECT_GT(Briefly(1000), 200) << policy;
    EXPECT_LT(Briefly(1000), 400) << policy;
    dispatcher_->SetPolicy(*policy::MakePolicy("band"));
    EXPECT_EQ(Briefly(1000), 0);
  }
}

TEST_F(Urgent, NobodyIsExpectedWhereTheOperatorDoesNotWantIt) {
  Start("priority", 0);
  EXPECT_EQ(Briefly(2000), 0);
}

TEST_F(Urgent, NorByAPolicyThatDoesNotKnowWhoIsUrgent) {
  Start("band", 3 * kMs);
  EXPECT_EQ(Briefly(2000), 0);
}

// Is asked about a slice that is alone, and has it wait for as long as the test wants.
class Closed : public policy::Policy {
 public:
  std::string_view name() const override { return "closed"; }
  policy::Wishes wishes() const override {
    return {.asked_always = true, .longest_wait_ns = 300 * kMs};
  }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    seen = context;
    return holds ? policy::Verdict::Hold(10'000) : policy::Verdict::Run();
  }
  policy::Verdict OnPower(const policy::PowerContext& context) override {
    return context.power_mw > 500'000 ? policy::Verdict::Hold(0) : policy::Verdict::Run();
  }

  policy::Verdict OnThermal(const policy::ThermalContext& context) override {
    heat = context;
    return on_heat;
  }

  bool holds = false;
  policy::DispatchContext seen;
  policy::ThermalContext heat;
  policy::Verdict on_heat;
};

class AskedAlways : public testing::Test {
 protected:
  AskedAlways() {
    now_ns = 1000 * kMs;
    DispatcherOptions options;
    options.has_thread = false;
    options.clock = &Now;
    options.wall_clock_us = [] { return now_ns / 1000 + int64_t{3} * 86'400'000'000; };
    options.policy_failed = [this](const auto&, const std::string& reason) { why_ = reason; };
    dispatcher_ = *Dispatcher::Create(std::move(options));
    dispatcher_->SetPolicy(policy_);
    registration_ = *dispatcher_->Join({.gpus = {0}, .slice = "a"});
    page_ = WorkersPage(*registration_);
  }

  EngineSlot& slot() { return page_->device(0)[kCompute]; }
  Grant::State state() { return slot().grant().state(); }
  void Pass(int64_t ns) {
    for (const int64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns += kMs / 10;
      dispatcher_->LookNow();
    }
  }

  const std::shared_ptr<Closed> policy_ = std::make_shared<Closed>();
  std::string why_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<DispatchRegistration> registration_;
  std::unique_ptr<DispatchPage> page_;
};

TEST_F(AskedAlways, AWorkerFindsTheEnginesClosed) {
  EXPECT_EQ(state(), Grant::State::kClosed);
  // Nobody wants it: it is looked at from time to time.
  Pass(200 * kMs);
  EXPECT_EQ(dispatcher_->LookNow(), absl::Milliseconds(1));
  slot().worker.executors_waiting = 1;
  Pass(kMs / 5);
  EXPECT_EQ(state(), Grant::State::kTurn);
}

TEST_F(AskedAlways, WhoIsAloneWaitsAsLongAsThePolicySays) {
  policy_->holds = true;
  slot().worker.executors_waiting = 1;
  Pass(250 * kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
  EXPECT_EQ(why_, "");
  policy_->holds = false;
  Pass(11 * kMs);
  EXPECT_EQ(state(), Grant::State::kTurn);
}

TEST_F(AskedAlways, ItIsReplacedWhenItHoldsForLongerThanItSaid) {
  policy_->holds = true;
  slot().worker.executors_waiting = 1;
  Pass(350 * kMs);
  EXPECT_EQ(why_, "it has had everybody wait for gpu 0 for 300ms");
  // BAND does not want to be asked.
  EXPECT_TRUE(slot().grant().open());
  EXPECT_EQ(dispatcher_->LookNow(), absl::InfiniteDuration());
}

TEST_F(AskedAlways, AnotherPolicyOpensTheEngines) {
  policy_->holds = true;
  slot().worker.executors_waiting = 1;
  Pass(kMs);
  dispatcher_->SetPolicy(*policy::MakePolicy("fifo"));
  EXPECT_TRUE(slot().grant().open());
  dispatcher_->SetPolicy(policy_);
  Pass(kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
}

TEST_F(AskedAlways, WhoStaysIsAskedAboutWhenTheOtherLeaves) {
  auto other = *dispatcher_->Join({.gpus = {0}, .slice = "b"});
  slot().worker.executors_waiting = 1;
  Pass(kMs);
  policy_->holds = true;
  other.reset();
  Pass(20 * kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
}

TEST_F(AskedAlways, PowerIsToldAndMayHaveEverybodyWait) {
  slot().worker.executors_waiting = 1;
  dispatcher_->SetPower(0, {.power_mw = 400'000, .limit_mw = 700'000, .temperature_c = 61});
  Pass(kMs);
  EXPECT_EQ(policy_->seen.power_mw, 400'000u);
  EXPECT_EQ(policy_->seen.power_limit_mw, 700'000u);
  EXPECT_EQ(policy_->seen.temperature_c, 61);
  EXPECT_EQ(policy_->seen.day_second, 1u);
  EXPECT_EQ(state(), Grant::State::kTurn);
  slot().worker.executors_waiting = 0;
  slot().worker.executors_in_flight = 1;
  dispatcher_->SetPower(0, {.power_mw = 600'000, .limit_mw = 700'000});
  Pass(kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
  slot().worker.executors_in_flight = 0;
  slot().worker.executors_waiting = 1;
  Pass(100 * kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
  dispatcher_->SetPower(0, {.power_mw = 450'000, .limit_mw = 700'000});
  Pass(kMs);
  EXPECT_EQ(state(), Grant::State::kTurn);
  // Another device's reading is not this one's.
  dispatcher_->SetPower(5, {.power_mw = 600'000});
  Pass(kMs);
  EXPECT_EQ(state(), Grant::State::kTurn);
}

TEST_F(AskedAlways, TheLaunchThatWaitsIsTold) {
  page_->kernel(0).Write({.name = 9,
                          .grid_blocks = uint64_t{1} << 33,
                          .expected_ns = 77'000,
                          .block_threads = 128,
                          .registers = 40,
                          .shared_bytes = 2048});
  slot().worker.executors_waiting = 1;
  Pass(kMs);
  EXPECT_EQ(policy_->seen.kernel, 9u);
  EXPECT_EQ(policy_->seen.grid_blocks, uint64_t{1} << 33);
  EXPECT_EQ(policy_->seen.expected_ns, 77'000u);
  EXPECT_EQ(policy_->seen.block_threads, 128u);
  EXPECT_EQ(policy_->seen.registers, 40u);
  EXPECT_EQ(policy_->seen.shared_bytes, 2048u);
  // A lie about the time is none, and a launch that does not wait any more is not told.
  page_->kernel(0).Write({.name = 9, .expected_ns = -5});
  Pass(20 * kMs);
  EXPECT_EQ(policy_->seen.kernel, 9u);
  EXPECT_EQ(policy_->seen.expected_ns, 0u);
  slot().worker.executors_waiting = 0;
  slot().worker.executors_in_flight = 1;
  Pass(20 * kMs);
  EXPECT_EQ(policy_->seen.kernel, 0u);
}

// Gives the turn to whoever waits with the shortest kernel.
class ShortestKernel : public policy::Policy {
 public:
  std::string_view name() const override { return "shortest"; }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    return policy::Verdict::Score(~static_cast<uint32_t>(context.expected_ns / 1000));
  }
};

TEST(Dispatcher, APolicyMayGoByTheTimesOfKernels) {
  const auto dispatcher = NewDispatcher();
  dispatcher->SetPolicy(std::make_shared<ShortestKernel>());
  for (const bool first_is_shorter : {true, false}) {
    const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
    const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
    const auto pages = {WorkersPage(*first), WorkersPage(*second)};
    for (const auto& page : pages) {
      const bool shorter = (&page == pages.begin()) == first_is_shorter;
      page->kernel(0).Write({.name = 1, .expected_ns = shorter ? 10'000 : 5'000'000});
      page->device(0)[kCompute].worker.executors_waiting = 1;
    }
    now_ns += kMs;
    dispatcher->LookNow();
    now_ns += kMs;
    dispatcher->LookNow();
    const size_t shorter = first_is_shorter ? 0 : 1;
    EXPECT_EQ(pages.begin()[shorter]->device(0)[kCompute].grant().state(), Grant::State::kTurn);
    EXPECT_EQ(pages.begin()[1 - shorter]->device(0)[kCompute].grant().state(),
              Grant::State::kClosed);
  }
}

TEST_F(AskedAlways, HeatIsToldWithItsChange) {
  dispatcher_->SetPower(0, {.temperature_c = 61});
  EXPECT_EQ(policy_->heat.temperature_c, 61);
  EXPECT_EQ(policy_->heat.change_c, 0);
  EXPECT_EQ(policy_->heat.head.now_ns, static_cast<uint64_t>(now_ns));
  dispatcher_->SetPower(0, {.temperature_c = 58});
  EXPECT_EQ(policy_->heat.change_c, -3);
  // A device that does not say its temperature is not asked about.
  dispatcher_->SetPower(0, {.power_mw = 1});
  EXPECT_EQ(policy_->heat.temperature_c, 58);
  policy_->on_heat = policy::Verdict::Hold(0);
  dispatcher_->SetPower(0, {.temperature_c = 95});
  slot().worker.executors_waiting = 1;
  Pass(100 * kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
}

TEST_F(AskedAlways, AHotDeviceRestsForAPartOfEachPeriod) {
  slot().worker.executors_waiting = 1;
  const auto rests_of = [&](int looks) {
    int rests = 0;
    for (int i = 0; i < looks; ++i) {
      Pass(kMs / 10);
      rests += state() == Grant::State::kClosed ? 1 : 0;
    }
    return rests;
  };
  policy_->on_heat = policy::Verdict::Throttle(300);
  dispatcher_->SetPower(0, {.temperature_c = 85});
  EXPECT_NEAR(rests_of(1000), 300, 20) << "3 of each 10 ms";
  policy_->on_heat = policy::Verdict::Throttle(5000);
  dispatcher_->SetPower(0, {.temperature_c = 99});
  EXPECT_NEAR(rests_of(1000), 900, 20) << "it is never held for good";
  EXPECT_EQ(why_, "") << "nor is the policy taken for one that fails";
  policy_->on_heat = policy::Verdict::Run();
  dispatcher_->SetPower(0, {.temperature_c = 70});
  Pass(kMs);
  EXPECT_EQ(rests_of(1000), 0);
  // Without further readings the policy's verdict lapses.
  policy_->on_heat = policy::Verdict::Throttle(900);
  dispatcher_->SetPower(0, {.temperature_c = 99});
  Pass(501 * kMs);
  EXPECT_EQ(rests_of(1000), 0);
}

TEST_F(AskedAlways, AHoldForPowerEndsWithTheReadings) {
  dispatcher_->SetPower(0, {.power_mw = 600'000});
  slot().worker.executors_waiting = 1;
  Pass(250 * kMs);
  EXPECT_EQ(state(), Grant::State::kClosed);
  Pass(60 * kMs);
  EXPECT_EQ(state(), Grant::State::kTurn);
  EXPECT_EQ(why_, "");
}

TEST(Dispatcher, UnknownPolicyIsRefused) {
  DispatcherOptions options;
  options.policy = "lottery";
  EXPECT_EQ(Dispatcher::Create(std::move(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// With the thread and real time: one session waits, and hears that it may go on.
TEST(Dispatcher, ThreadGivesTurns) {
  const auto dispatcher = NewDispatcher(/*has_thread=*/true);
  const auto first = *dispatcher->Join({.gpus = {0}, .slice = "a"});
  const auto second = *dispatcher->Join({.gpus = {0}, .slice = "b"});
  const auto one = WorkersPage(*first);
  const auto two = WorkersPage(*second);
  one->device(0)[kCompute].worker.executors_waiting = 1;
  two->device(0)[kCompute].worker.executors_waiting = 1;
  bool had_one = false;
  bool had_two = false;
  while (!had_one || !had_two) {
    had_one |= one->device(0)[kCompute].grant().state() == Grant::State::kTurn;
    had_two |= two->device(0)[kCompute].grant().state() == Grant::State::kTurn;
  }
}

// Each executor on a thread of its own, as in workers.
TEST(Dispatcher, ExecutorsOfSeveralSessionsAllComeToAnEnd) {
  const auto dispatcher = NewDispatcher(/*has_thread=*/true);
  std::vector<std::unique_ptr<DispatchRegistration>> registrations;
  std::vector<std::unique_ptr<SessionGates>> gates;
  std::vector<std::thread> executors;
  for (int i = 0; i < 3; ++i) {
    registrations.push_back(*dispatcher->Join({.gpus = {0}, .slice = std::string(1, 'a' + i)}));
    gates.push_back(std::make_unique<SessionGates>(WorkersPage(*registrations.back())));
    for (int executor = 0; executor < 2; ++executor) {
      executors.emplace_back([gate = gates.back().get()] {
        ExecutorTurns turns(gate, 0);
        for (uint64_t ticket = 1; ticket <= 300;) {
          if (turns.MayIssue(Engine::kCompute)) {
            turns.OnIssued(Engine::kCompute, ticket, 0);
            turns.OnRetired(ticket++);
          }
          std::this_thread::yield();
        }
      });
    }
  }
  for (std::thread& executor : executors) executor.join();
  for (const auto& registration : registrations)
    EXPECT_GE(registration->usage()[kCompute].busy_ns, 0);
}

}  // namespace
}  // namespace warpline::dispatch
