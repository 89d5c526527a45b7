// What the dispatcher has sessions told: how fast their kernels go, that they launch nothing, and
// that they end.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policy/builtin.h"
#include "policy/policy.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/dispatch/dispatcher_fixture.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"

namespace warpline::dispatch {
namespace {

// Throttles whatever is beside something more urgent.
class Throttling : public policy::Policy {
 public:
  std::string_view name() const override { return "throttling"; }
  policy::Verdict OnPreempt(const policy::PreemptContext& context) override {
    return context.level == 2 ? policy::Verdict::Throttle(300) : policy::Verdict::Keep();
  }
  policy::Verdict OnThermal(const policy::ThermalContext& context) override {
    return policy::Verdict::Throttle(context.temperature_c > 80 ? 400 : 0);
  }
};

class PacesTest : public testing::Test {
 protected:
  PacesTest() {
    dispatcher_->SetPolicy(std::make_shared<Throttling>());
    effort_->SetWorker(100);
    urgent_->SetWorker(100);
  }

  std::unique_ptr<DispatchRegistration> Join(const char* slice, int priority,
                                             bool shares_context = true) {
    return *dispatcher_->Join({.gpus = {0},
                               .slice = slice,
                               .priority = priority,
                               .shares_context = shares_context,
                               .on_pace = [this](uint32_t nap_us) { said_.push_back(nap_us); }});
  }
  static void Work(const DispatchRegistration& registration, uint32_t executors) {
    WorkersPage(registration)->device(0)[kCompute].worker.executors_in_flight = executors;
  }
  // Returns the orders that sessions were given since the last look.
  std::vector<uint32_t> Look() {
    now_ns += kMs;
    dispatcher_->LookNow();
    return std::exchange(said_, {});
  }

  using Said = std::vector<uint32_t>;
  const std::unique_ptr<Dispatcher> dispatcher_ = NewDispatcher();
  Said said_;
  const std::unique_ptr<DispatchRegistration> effort_ = Join("effort", 0);
  std::unique_ptr<DispatchRegistration> urgent_ = Join("urgent", 1);
};

TEST_F(PacesTest, ASessionIsToldOncePerChange) {
  Work(*effort_, 1);
  EXPECT_EQ(Look(), Said());
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  EXPECT_EQ(Look(), Said());
  Work(*urgent_, 0);
  now_ns += KernelPaces::kLingerNs;
  EXPECT_EQ(Look(), Said({0}));
}

TEST_F(PacesTest, KernelsOnAHotDeviceNapAtLeastSoLong) {
  Work(*effort_, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  dispatcher_->SetPower(0, {.temperature_c = 81});
  EXPECT_EQ(Look(), Said({400, 400})) << "heat is everybody's";
  dispatcher_->SetPower(0, {.temperature_c = 80});
  EXPECT_EQ(Look(), Said({300, 0}));
}

TEST_F(PacesTest, WhoIsLeftAloneGoesOnAtFullPace) {
  Work(*effort_, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  urgent_.reset();
  EXPECT_EQ(Look(), Said({0}));
}

TEST_F(PacesTest, AnotherPolicyIsAskedAnew) {
  Work(*effort_, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  dispatcher_->SetPolicy(*policy::MakePolicy("band"));
  EXPECT_EQ(Look(), Said({0}));
}

TEST_F(PacesTest, TheNextWorkerIsToldAsWell) {
  Work(*effort_, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  effort_->ForgetWorker();
  effort_->SetWorker(101);
  Work(*effort_, 1);
  EXPECT_EQ(Look(), Said({300}));
}

TEST_F(PacesTest, AnotherSessionOfTheSliceIsToldOnceItHasAWorker) {
  Work(*effort_, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said({300}));
  const auto second = Join("effort", 0);
  EXPECT_EQ(Look(), Said());
  second->SetWorker(100);
  EXPECT_EQ(Look(), Said({300}));
}

// They are not at work at once.
TEST_F(PacesTest, SessionsWithAContextOfTheirOwnAreNotThrottled) {
  const auto isolated = Join("isolated", 0, /*shares_context=*/false);
  isolated->SetWorker(102);
  Work(*isolated, 1);
  Work(*urgent_, 1);
  EXPECT_EQ(Look(), Said());
}

// Kills whatever it is asked about.
class Killing : public policy::Policy {
 public:
  std::string_view name() const override { return "killing"; }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    return context.more_urgent_waiting > 0 ? policy::Verdict::Skip() : policy::Verdict();
  }
  policy::Verdict OnPreempt(const policy::PreemptContext&) override {
    return policy::Verdict::Kill();
  }
};

class KillsTest : public testing::Test {
 protected:
  KillsTest() { dispatcher_->SetPolicy(std::make_shared<Killing>()); }

  std::unique_ptr<DispatchRegistration> Join(uint64_t session, const char* slice, int priority,
                                             bool best_effort, bool shares_context = false) {
    return *dispatcher_->Join({.gpus = {0},
                               .tenant = absl::StrCat("tenant ", slice),
                               .slice = slice,
                               .priority = priority,
                               .shares_context = shares_context,
                               .session = session,
                               .best_effort = best_effort,
                               .on_kill = [this, session](const KillOrder& order) {
                                 killed_.push_back(session);
                                 order_ = order;
                               }});
  }
  static EngineSlot& SlotOf(const DispatchRegistration& registration,
                            std::unique_ptr<DispatchPage>* page) {
    *page = WorkersPage(registration);
    return (*page)->device(0)[kCompute];
  }
  static void Work(const DispatchRegistration& registration, uint32_t in_flight,
                   uint32_t waiting = 0) {
    std::unique_ptr<DispatchPage> page;
    EngineSlot& slot = SlotOf(registration, &page);
    slot.worker.executors_in_flight = in_flight;
    slot.worker.executors_waiting = waiting;
    if (in_flight > 0) slot.worker.busy_since_ns = now_ns.load();
  }
  void Pass(int64_t ns) {
    for (const int64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns += kMs / 10;
      dispatcher_->LookNow();
    }
  }
  std::vector<TraceSpan> KillsInTrace() {
    std::vector<TraceSpan> spans = dispatcher_->Trace({}, 1000)[0].spans;
    std::erase_if(spans, [](const TraceSpan& span) { return span.kind != TraceKind::kKill; });
    return spans;
  }

  using Sessions = std::vector<uint64_t>;
  const std::unique_ptr<Dispatcher> dispatcher_ = NewDispatcher();
  Sessions killed_;
  KillOrder order_;
};

TEST_F(KillsTest, WhatIsInTheWayIsEndedOnceAndIsNobodysConcernAnyMore) {
  const auto effort = Join(1, "effort", 0, /*best_effort=*/true);
  const auto idle = Join(2, "effort", 0, /*best_effort=*/true);
  const auto urgent = Join(3, "urgent", 2, /*best_effort=*/false);
  Work(*effort, 1);
  Pass(5 * kMs);
  Work(*urgent, 0, 1);
  Pass(kLeastInWayNs - kMs / 10);
  EXPECT_EQ(killed_, Sessions());
  Pass(kMs / 2);
  // Its page says for ever that it has work in flight.
  EXPECT_EQ(killed_, Sessions({1}));
  EXPECT_EQ(order_.policy, "killing");
  EXPECT_EQ(order_.gpu, 0);
  EXPECT_EQ(order_.urgent, "tenant urgent");
  EXPECT_GE(order_.in_way_ns, kLeastInWayNs);
  EXPECT_LE(order_.in_way_ns, kMs);
  std::unique_ptr<DispatchPage> page;
  EXPECT_EQ(SlotOf(*urgent, &page).grant().state(), Grant::State::kTurn);
  Pass(50 * kMs);
  EXPECT_EQ(killed_, Sessions({1}));
  const auto spans = KillsInTrace();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].reason, TraceReason::kInWay);
  EXPECT_EQ(spans[0].end_ns - spans[0].begin_ns, order_.in_way_ns);
  EXPECT_EQ(spans[0].slice, 1u);
  EXPECT_EQ(spans[0].other, 2u);
}

// Whatever the policy says, and however long it takes.
TEST_F(KillsTest, WhoIsNotBestEffortIsNotEnded) {
  const auto other = Join(1, "other", 0, /*best_effort=*/false);
  const auto urgent = Join(2, "urgent", 2, /*best_effort=*/false);
  const auto guarded = Join(3, "guarded", 0, /*best_effort=*/false, /*shares_context=*/true);
  const auto beside = Join(4, "beside", 2, /*best_effort=*/false, /*shares_context=*/true);
  for (const auto* registration : {&other, &guarded, &beside}) Work(**registration, 1);
  Work(*urgent, 0, 1);
  Pass(200 * kMs);
  EXPECT_EQ(killed_, Sessions());
  EXPECT_TRUE(KillsInTrace().empty());
}

// A lease's sessions have the same terms; if they had not, each would be held to its own.
TEST_F(KillsTest, ASessionIsHeldToItsOwnTerms) {
  const auto effort = Join(1, "lease", 0, /*best_effort=*/true);
  const auto plain = Join(2, "lease", 0, /*best_effort=*/false);
  const auto urgent = Join(3, "urgent", 2, /*best_effort=*/false);
  Work(*effort, 1);
  Work(*plain, 1);
  Pass(5 * kMs);
  Work(*urgent, 0, 1);
  Pass(20 * kMs);
  EXPECT_EQ(killed_, Sessions({1}));
}

TEST_F(KillsTest, KernelsBesideAMoreUrgentOneInItsContextAreEndedWhenThatOneIsStuck) {
  const auto effort = Join(1, "effort", 0, /*best_effort=*/true, /*shares_context=*/true);
  const auto urgent = Join(2, "urgent", 2, /*best_effort=*/false, /*shares_context=*/true);
  Work(*effort, 1);
  std::unique_ptr<DispatchPage> page;
  EngineSlot& slot = SlotOf(*urgent, &page);
  slot.worker.executors_in_flight = 1;
  // It gets on.
  for (int i = 0; i < 100; ++i) {
    ++slot.worker.commands;
    Pass(kMs / 10);
  }
  EXPECT_EQ(killed_, Sessions());
  Pass(kMs);
  EXPECT_EQ(killed_, Sessions({1}));
  EXPECT_EQ(order_.urgent, "tenant urgent");
  EXPECT_EQ(KillsInTrace().size(), 1u);
}

class KeepsApart : public policy::Policy {
 public:
  std::string_view name() const override { return "keeps-apart"; }
  policy::Verdict OnPreempt(const policy::PreemptContext& context) override {
    return context.level == 2 ? policy::Verdict::Hold(2000) : policy::Verdict();
  }
};

TEST_F(KillsTest, WhoIsKeptApartFromAMoreUrgentOneLaunchesNothingMeanwhile) {
  dispatcher_->SetPolicy(std::make_shared<KeepsApart>());
  const auto effort = Join(1, "effort", 0, /*best_effort=*/false, /*shares_context=*/true);
  const auto urgent = Join(2, "urgent", 2, /*best_effort=*/false, /*shares_context=*/true);
  const auto other = Join(3, "other", 0, /*best_effort=*/false, /*shares_context=*/false);
  std::unique_ptr<DispatchPage> page;
  const EngineSlot& slot = SlotOf(*effort, &page);
  Work(*effort, 1);
  Pass(kMs);
  EXPECT_NE(slot.grant().state(), Grant::State::kClosed);
  Work(*urgent, 1);
  Pass(kMs);
  EXPECT_EQ(slot.grant().state(), Grant::State::kClosed);
  std::unique_ptr<DispatchPage> urgent_page;
  EXPECT_NE(SlotOf(*urgent, &urgent_page).grant().state(), Grant::State::kClosed);
  // What it has launched ends, and it waits with more.
  Work(*effort, 0, 1);
  Pass(5 * kMs);
  EXPECT_EQ(slot.grant().state(), Grant::State::kClosed);
  // A second session of the slice is held, too.
  const auto second = Join(4, "effort", 0, /*best_effort=*/false, /*shares_context=*/true);
  Pass(kMs / 10);
  std::unique_ptr<DispatchPage> second_page;
  EXPECT_EQ(SlotOf(*second, &second_page).grant().state(), Grant::State::kClosed);
  Work(*urgent, 0);
  Pass(KernelPaces::kLingerNs + kMs);
  EXPECT_NE(slot.grant().state(), Grant::State::kClosed);
  std::vector<TraceSpan> spans = dispatcher_->Trace({}, 1000)[0].spans;
  std::erase_if(spans, [](const TraceSpan& span) { return span.kind != TraceKind::kLimit; });
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].reason, TraceReason::kKeptApart);
  EXPECT_EQ(spans[0].slice, 1u);
  EXPECT_EQ(spans[0].other, 2u);
  EXPECT_GT(spans[0].end_ns - spans[0].begin_ns, KernelPaces::kLingerNs);
  // With another policy it goes on.
  Work(*urgent, 1);
  Pass(kMs);
  EXPECT_EQ(slot.grant().state(), Grant::State::kClosed);
  dispatcher_->SetPolicy(std::make_shared<Killing>());
  Pass(kMs / 10);
  EXPECT_NE(slot.grant().state(), Grant::State::kClosed);
}

// A load waits until no kernel runs in the context: nothing of it is in flight.
TEST_F(KillsTest, KernelsForWhichAMoreUrgentOneWaitsToLoadCodeAreEnded) {
  const auto effort = Join(1, "effort", 0, /*best_effort=*/true, /*shares_context=*/true);
  const auto urgent = Join(2, "urgent", 2, /*best_effort=*/false, /*shares_context=*/true);
  Work(*effort, 1);
  const SessionGates gates(WorkersPage(*urgent));
  // One load after the other.
  for (int i = 0; i < 100; ++i) {
    gates.NoteLoad(0, /*begins=*/true);
    Pass(kMs / 10);
    gates.NoteLoad(0, /*begins=*/false);
  }
  EXPECT_EQ(killed_, Sessions());
  gates.NoteLoad(0, /*begins=*/true);
  Pass(kMs);
  EXPECT_EQ(killed_, Sessions({1}));
}

TEST_F(KillsTest, ALoadThatEndedWithItsWorkerIsForgotten) {
  const auto effort = Join(1, "effort", 0, /*best_effort=*/true, /*shares_context=*/true);
  const auto urgent = Join(2, "urgent", 2, /*best_effort=*/false, /*shares_context=*/true);
  Work(*effort, 1);
  SessionGates(WorkersPage(*urgent)).NoteLoad(0, /*begins=*/true);
  urgent->ForgetWorker();
  Pass(10 * kMs);
  EXPECT_EQ(killed_, Sessions());
}

}  // namespace
}  // namespace warpline::dispatch
