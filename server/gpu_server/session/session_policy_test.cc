// What a policy says of sessions that are opened, memory that does not fit, and memory that is
// kept.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "policy/policy.h"
#include "proto/refusal.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using policy::Verdict;

// Says what the test has it say, and keeps what it was told.
class Told : public policy::Policy {
 public:
  std::string_view name() const override { return "told"; }
  Verdict OnSubmit(const policy::SubmitContext& context) override {
    MutexLock lock(&mu_);
    submits_.push_back(context);
    return on_submit_ ? on_submit_(context) : Verdict();
  }
  Verdict OnMemFault(const policy::MemFaultContext& context) override {
    MutexLock lock(&mu_);
    faults_.push_back(context);
    return on_mem_fault_ ? on_mem_fault_(context) : Verdict();
  }
  Verdict OnReclaim(const policy::ReclaimContext& context) override {
    MutexLock lock(&mu_);
    reclaims_.push_back(context);
    return on_reclaim_ ? on_reclaim_(context) : Verdict();
  }

  void Submit(std::function<Verdict(const policy::SubmitContext&)> say) {
    MutexLock lock(&mu_);
    on_submit_ = std::move(say);
  }
  void MemFault(std::function<Verdict(const policy::MemFaultContext&)> say) {
    MutexLock lock(&mu_);
    on_mem_fault_ = std::move(say);
  }
  void Reclaim(std::function<Verdict(const policy::ReclaimContext&)> say) {
    MutexLock lock(&mu_);
    on_reclaim_ = std::move(say);
  }
  std::vector<policy::SubmitContext> submits() {
    MutexLock lock(&mu_);
    return submits_;
  }
  std::vector<policy::MemFaultContext> faults() {
    MutexLock lock(&mu_);
    return faults_;
  }
  std::vector<policy::ReclaimContext> reclaims() {
    MutexLock lock(&mu_);
    return reclaims_;
  }

 private:
  Mutex mu_;
  std::function<Verdict(const policy::SubmitContext&)> on_submit_ ABSL_GUARDED_BY(mu_);
  std::function<Verdict(const policy::MemFaultContext&)> on_mem_fault_ ABSL_GUARDED_BY(mu_);
  std::function<Verdict(const policy::ReclaimContext&)> on_reclaim_ ABSL_GUARDED_BY(mu_);
  std::vector<policy::SubmitContext> submits_ ABSL_GUARDED_BY(mu_);
  std::vector<policy::MemFaultContext> faults_ ABSL_GUARDED_BY(mu_);
  std::vector<policy::ReclaimContext> reclaims_ ABSL_GUARDED_BY(mu_);
};

class SessionPolicyTest : public SessionFixture {
 protected:
  SessionPolicyTest() {
    options_.dispatcher = std::move(*dispatch::Dispatcher::Create({}));
    options_.dispatcher->SetPolicy(policy_);
  }

  // Why the server does not open a session.
  absl::Status Refusal() {
    auto client = Dial();
    EXPECT_FALSE(client->Open().has_value());
    return client->AwaitClosed();
  }

  const std::shared_ptr<Told> policy_ = std::make_shared<Told>();
};

TEST_F(SessionPolicyTest, ASessionIsAskedAboutBeforeItIsOpened) {
  StartServer();
  auto first = DialAndOpen();
  auto second = DialAndOpen();
  const auto submits = policy_->submits();
  ASSERT_EQ(submits.size(), 2u);
  EXPECT_EQ(submits[0].call_class, 3u);
  EXPECT_EQ(submits[0].queue_depth, 0u);
  EXPECT_EQ(submits[0].head.session, 1u);
  EXPECT_NE(submits[0].head.tenant, 0u);
  EXPECT_EQ(submits[1].queue_depth, 1u);
  EXPECT_EQ(submits[1].head.tenant, submits[0].head.tenant);
}

TEST_F(SessionPolicyTest, APolicyRefusesSessions) {
  StartServer();
  policy_->Submit([](const policy::SubmitContext& context) -> Verdict {
    return {context.queue_depth >= 1 ? policy::Action::kReject : policy::Action::kRun, 0};
  });
  auto first = DialAndOpen();
  const absl::Status refusal = Refusal();
  EXPECT_TRUE(absl::IsPermissionDenied(refusal)) << refusal;
  EXPECT_EQ(refusal.message(), "the server's policy refuses the session");
  first.reset();
  ExpectNothingLeft();
  EXPECT_NE(DialAndOpen(), nullptr);
}

TEST_F(SessionPolicyTest, ASessionWaitsUntilThePolicyLetsItIn) {
  StartServer();
  policy_->Submit([asked = 0](const policy::SubmitContext&) mutable {
    return ++asked < 4 ? Verdict::Hold(2000) : Verdict::Run();
  });
  auto client = DialAndOpen();
  EXPECT_EQ(policy_->submits().size(), 4u);
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionPolicyTest, NoSessionWaitsForEver) {
  options_.session.most_queued = absl::Milliseconds(30);
  StartServer();
  policy_->Submit([](const policy::SubmitContext&) { return Verdict::Hold(0); });
  const absl::Status refusal = Refusal();
  EXPECT_TRUE(absl::IsResourceExhausted(refusal)) << refusal;
  EXPECT_EQ(refusal.message(), "the server's policy has had the session wait for 30ms");
}

TEST_F(SessionPolicyTest, WhoLeavesWhileItWaitsIsForgotten) {
  StartServer();
  policy_->Submit([](const policy::SubmitContext&) { return Verdict::Hold(5000); });
  auto client = Dial();
  client->SendMessage(kHello, TestClient::GoodHello());
  while (policy_->submits().empty()) absl::SleepFor(absl::Milliseconds(1));
  client.reset();
  ExpectNothingLeft();
}

TEST_F(SessionPolicyTest, MemoryThatDoesNotFitIsRefusedAtOnceOrWaitedFor) {
  StartServer();
  policy_->MemFault([](const policy::MemFaultContext&) -> Verdict {
    return {policy::Action::kFail, 0};
  });
  auto client = DialAndOpen();
  auto grant = client->RequestMemory(kArena, 256 * kMiB, 256 * kMiB);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_THAT(grant->message(), ::testing::HasSubstr("policy"));
  ASSERT_EQ(policy_->faults().size(), 1u);
  const policy::MemFaultContext fault = policy_->faults()[0];
  EXPECT_EQ(fault.wanted_bytes, 256 * kMiB);
  EXPECT_EQ(fault.used_bytes, 0u);
  EXPECT_EQ(fault.quota_bytes, 192 * kMiB);
  EXPECT_GT(fault.pool_free_bytes, 192 * kMiB);
  // It is asked again after each wait, and what does not fit then is refused as ever.
  policy_->MemFault([asked = 0](const policy::MemFaultContext&) mutable {
    return ++asked < 4 ? Verdict::Hold(1000) : Verdict();
  });
  grant = client->RequestMemory(kArena, 256 * kMiB, 256 * kMiB);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(policy_->faults().size(), 5u);
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
}

TEST_F(SessionPolicyTest, WhatASessionKeepsIsReclaimedOrLeftAlone) {
  StartServer();
  auto keeps = DialAndOpen();
  ASSERT_EQ(keeps->RequestMemory(kArena, 128 * kMiB, 128 * kMiB)->bytes(), 128 * kMiB);
  warpline_internal::MemoryReturn back;
  back.set_va(kArena);
  back.set_bytes(128 * kMiB);
  keeps->SendMessage(kMemoryReturn, back);
  auto wants = DialAndOpen();
  policy_->Reclaim([](const policy::ReclaimContext&) { return Verdict::Keep(); });
  auto grant = wants->RequestMemory(kArena, 160 * kMiB, 160 * kMiB);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->error(), static_cast<int>(CudaResult::kOutOfMemory));
  ASSERT_EQ(policy_->reclaims().size(), 1u);
  EXPECT_EQ(policy_->reclaims()[0].bytes, 128 * kMiB);
  EXPECT_EQ(policy_->reclaims()[0].head.session, 1u);
  EXPECT_GT(policy_->reclaims()[0].age_ns, 0u);
  policy_->Reclaim([](const policy::ReclaimContext&) { return Verdict::Score(7); });
  grant = wants->RequestMemory(kArena, 160 * kMiB, 160 * kMiB);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->bytes(), 160 * kMiB) << grant->message();
}

}  // namespace
}  // namespace warpline::server
