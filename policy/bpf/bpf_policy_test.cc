#include "policy/bpf/bpf_policy.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "policy/bpf/map.h"
#include "policy/bpf/testing/assembler.h"
#include "policy/policy.h"

namespace warpline::policy::bpf {
namespace {

using testing::Assemble;
using testing::MakeObject;

class BpfPolicyTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<BpfPolicy>> Load(const std::string& object,
                                                  const BpfPolicy* previous = nullptr) {
    return BpfPolicy::Load(object,
                           {.name = "mine",
                            .now_ns = [] { return uint64_t{77}; },
                            .audit = [this](uint64_t code) { audited_.push_back(code); }},
                           previous);
  }
  // What the policy of one hook says.
  Verdict Dispatch(const std::string& text) {
    const auto policy = Load(MakeObject("on_dispatch", Assemble(text)));
    EXPECT_TRUE(policy.ok()) << policy.status();
    if (!policy.ok()) return {};
    return (*policy)->OnDispatch({.head = {.tenant = 5}, .credit_ns = -9});
  }

  std::vector<uint64_t> audited_;
};

TEST_F(BpfPolicyTest, SaysWhatTheProgramSays) {
  const Verdict held = Dispatch("r0 = 500; r0 <<= 32; r0 |= 2; exit");
  EXPECT_EQ(held.action, Action::kHold);
  EXPECT_EQ(held.argument, 500u);
  EXPECT_EQ(Dispatch("r0 = 3; exit").action, Action::kSkip);
  const Verdict score = Dispatch("r0 = -1; r0 <<= 32; r0 |= 9; exit");
  EXPECT_EQ(score.action, Action::kScore);
  EXPECT_EQ(score.argument, 0xffffffffu);
}

TEST_F(BpfPolicyTest, AnUnknownVerdictIsTheDefault) {
  EXPECT_EQ(Dispatch("r0 = 12; exit").action, Action::kDefault);
  EXPECT_EQ(Dispatch("r0 = -1; exit").action, Action::kDefault);
  EXPECT_EQ(Dispatch("r0 = -1; exit").argument, 0u);
}

TEST_F(BpfPolicyTest, ProgramsSeeTheContext) {
  EXPECT_EQ(Dispatch("r0 = u64 [ r1 + 8 ]; exit").action, Action::kYield);  // Tenant 5.
  EXPECT_EQ(Dispatch("r0 = 1; r1 = u64 [ r1 + 32 ]; if r1 s< 0 goto +1; r0 = 2; exit").action,
            Action::kRun);
}

TEST_F(BpfPolicyTest, ProgramsSeeWhatIsInTheWayAndMayHaveItEnded) {
  const auto policy = Load(
      MakeObject("on_preempt",
                 Assemble("r0 = 6; r2 = u32 [ r1 + 72 ]; if r2 == 0 goto +3; r2 = u64 [ r1 + 64 ];"
                          "if r2 < 2000 goto +1; r0 = 11; exit")));
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ((*policy)->OnPreempt({.head = {}, .in_way_ns = 2000, .killable = 1}).action,
            Action::kKill);
  EXPECT_EQ((*policy)->OnPreempt({.head = {}, .in_way_ns = 1999, .killable = 1}).action,
            Action::kKeep);
  EXPECT_EQ((*policy)->OnPreempt({.head = {}, .in_way_ns = 2000}).action, Action::kKeep);
}

TEST_F(BpfPolicyTest, WhatOnlyBuiltInPoliciesAreToldIsOutOfReach) {
  EXPECT_EQ(
      Load(MakeObject("on_preempt", Assemble("r0 = u32 [ r1 + 104 ]; exit"))).status().message(),
      "on_preempt: pc 0: an access to 4 bytes at offset 104 is outside of the context");
}

TEST_F(BpfPolicyTest, HelpersAreTheOptions) {
  EXPECT_EQ(Dispatch("r1 = 4; call 4; call 3; if r0 == 77 goto +1; exit; r0 = 1; exit").action,
            Action::kRun);
  EXPECT_EQ(audited_, std::vector<uint64_t>{4});
}

TEST_F(BpfPolicyTest, OtherHooksAreTheDefault) {
  const auto policy = Load(MakeObject("on_dispatch", Assemble("r0 = 1; exit")));
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ((*policy)->name(), "mine");
  EXPECT_EQ((*policy)->OnSubmit({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnPreempt({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnMemFault({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnReclaim({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnCopyEnqueue({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnPower({}).action, Action::kDefault);
  EXPECT_EQ((*policy)->OnThermal({}).action, Action::kDefault);
  (*policy)->OnRetire({});
}

TEST_F(BpfPolicyTest, SaysWhetherItWantsToBeAskedAlways) {
  const auto code = Assemble("r0 = 1; exit");
  EXPECT_FALSE((*Load(MakeObject("on_dispatch", code)))->wishes().asked_always);
  const uint32_t ms = 250;
  const auto always =
      Load(MakeObject("on_dispatch", code, {}, {reinterpret_cast<const char*>(&ms), sizeof(ms)}));
  ASSERT_TRUE(always.ok()) << always.status();
  EXPECT_TRUE((*always)->wishes().asked_always);
  EXPECT_EQ((*always)->wishes().longest_wait_ns, 250'000'000);
}

TEST_F(BpfPolicyTest, SaysWhetherItExpectsArrivals) {
  const auto code = Assemble("r0 = 5; exit");
  EXPECT_FALSE((*Load(MakeObject("on_preempt", code)))->wishes().expects);
  const uint32_t one = 1;
  const auto expects = Load(
      MakeObject("on_preempt", code, {}, {}, {reinterpret_cast<const char*>(&one), sizeof(one)}));
  ASSERT_TRUE(expects.ok()) << expects.status();
  EXPECT_TRUE((*expects)->wishes().expects);
  EXPECT_FALSE((*expects)->wishes().asked_always);
}

TEST_F(BpfPolicyTest, EveryHookIsAsked) {
  for (const char* hook : {"on_submit", "on_dispatch", "on_preempt", "on_retire", "on_mem_fault",
                           "on_reclaim", "on_copy_enqueue", "on_power", "on_thermal"}) {
    const auto policy = Load(MakeObject(hook, Assemble("r1 = 1; call 4; r0 = 1; exit")));
    ASSERT_TRUE(policy.ok()) << policy.status();
    (*policy)->OnSubmit({});
    (*policy)->OnDispatch({});
    (*policy)->OnPreempt({});
    (*policy)->OnRetire({});
    (*policy)->OnMemFault({});
    (*policy)->OnReclaim({});
    (*policy)->OnCopyEnqueue({});
    (*policy)->OnPower({});
    (*policy)->OnThermal({});
    EXPECT_EQ(audited_.size(), 1u) << hook;
    audited_.clear();
  }
}

TEST_F(BpfPolicyTest, AnExampleRunsAndItsMapsAreCarriedOver) {
  std::ifstream in("policy/examples/token_bucket.bpf.o", std::ios::binary);
  const std::string object{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto first = Load(object);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->OnDispatch({.head = {.tenant = 5}}).action, Action::kRun);
  (*first)->OnRetire({.head = {.tenant = 5}, .actual_ns = 30000000});
  EXPECT_EQ((*first)->OnDispatch({.head = {.tenant = 5}}).action, Action::kHold);
  const auto second = Load(object, first->get());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->OnDispatch({.head = {.tenant = 5}}).action, Action::kHold);
  const uint64_t tenant = 5;
  EXPECT_NE((*second)->program().FindMap("buckets")->Find(&tenant), nullptr);
}

TEST_F(BpfPolicyTest, RefusesWhatTheVerifierRefuses) {
  EXPECT_EQ(Load(MakeObject("on_dispatch", Assemble("exit"))).status().message(),
            "on_dispatch: pc 0: r0 is read, and was not written on every way to here");
  EXPECT_FALSE(BpfPolicy::Load(MakeObject("on_dispatch", Assemble("r0 = 0; exit")), {}).ok());
}

}  // namespace
}  // namespace warpline::policy::bpf
