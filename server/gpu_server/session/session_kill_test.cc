// Sessions that a policy has ended for more urgent work.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "policy/policy.h"
#include "proto/session.pb.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/dispatch_pages.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::server {
namespace {

using dispatch::DispatchPage;
using dispatch::EngineIndex;
using testing::HasSubstr;
using testing::Not;

// Says kill whenever it is asked.
class Killing : public policy::Policy {
 public:
  std::string_view name() const override { return "killing"; }
  policy::Verdict OnDispatch(const policy::DispatchContext&) override {
    ++chosen;
    return {};
  }
  policy::Verdict OnPreempt(const policy::PreemptContext&) override {
    return policy::Verdict::Kill();
  }
  std::atomic<int> chosen{0};  // How often somebody was to be chosen.
};

class SessionKillTest : public SessionFixture {
 protected:
  SessionKillTest() {
    options_.dispatcher = std::move(*dispatch::Dispatcher::Create({}));
    options_.dispatcher->SetPolicy(policy_);
    lease_options_.required = true;
    lease_options_.server_name = "s";
  }

  void Start() {
    StartServer();
    leases_->SetKeys({key_.verify_key()});
  }

  struct Tenant {
    std::unique_ptr<TestClient> client;
    std::unique_ptr<DispatchPage> page;  // As its worker would have it.

    dispatch::WorkerLine& compute() {
      return page->device(0)[EngineIndex(Engine::kCompute)].worker;
    }
  };
  Tenant Open(const std::string& name, int32_t priority, bool best_effort) {
    DispatchPages pages;
    LeaseToken token;
    token.lease = token.tenant = name;
    token.server = "s";
    token.max_sessions = 1;
    token.expires = SteadyNow() + absl::Hours(1);
    token.slice.priority = priority;
    token.slice.best_effort = best_effort;
    auto hello = TestClient::GoodHello();
    hello.set_token(SignToken(key_, token).value());
    Tenant tenant;
    tenant.client = Dial();
    EXPECT_TRUE(tenant.client->Open(hello).has_value());
    tenant.page = pages.TakeNew();
    EXPECT_NE(tenant.page, nullptr);
    return tenant;
  }

  const SigningKey key_ = SigningKey::Generate().value();
  const std::shared_ptr<Killing> policy_ = std::make_shared<Killing>();
};

TEST_F(SessionKillTest, ABestEffortSessionEndsWithAnErrorAndNothingOfItIsLeft) {
  Start();
  Tenant effort = Open("effort", 0, /*best_effort=*/true);
  Tenant urgent = Open("urgent", 3, /*best_effort=*/false);
  ASSERT_EQ(effort.client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  effort.compute().executors_in_flight = 1;
  urgent.compute().executors_waiting = 1;
  const auto payload = effort.client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(*payload));
  EXPECT_EQ(fault.error(), static_cast<int>(CudaResult::kLaunchTimeout));
  EXPECT_FALSE(fault.memory_kept());
  EXPECT_THAT(fault.message(),
              HasSubstr("ended by policy killing: best-effort work held gpu 0 for "));
  EXPECT_THAT(fault.message(), Not(HasSubstr("tenant")));
  EXPECT_TRUE(effort.client->AwaitClosed().ok());
  effort.client.reset();
  while (host_->sessions() > 1) std::this_thread::yield();
  EXPECT_EQ(host_->counters().killed.value(), 1u);
  EXPECT_EQ(host_->counters().faults.value(), 1u);
  EXPECT_EQ(host_->counters().worker_deaths.value(), 0u);
  EXPECT_EQ(host_->counters().worker_replacements.value(), 0u);
  const auto totals = host_->counters().ended_tenants.Sums();
  EXPECT_EQ(totals.at({"effort", 0}).killed, 1u);
  urgent.compute().executors_waiting = 0;
  urgent.client->SendCommands(Body('e'));
  EXPECT_TRUE(urgent.client->Await(kReplies).has_value());
}

TEST_F(SessionKillTest, WhoIsNotBestEffortGoesOnWhateverThePolicySays) {
  Start();
  Tenant plain = Open("plain", 0, /*best_effort=*/false);
  Tenant urgent = Open("urgent", 3, /*best_effort=*/false);
  plain.compute().executors_in_flight = 1;
  urgent.compute().executors_waiting = 1;
  // Its work overruns one turn of the urgent one's after the other.
  while (policy_->chosen < 20) std::this_thread::yield();
  plain.client->SendCommands(Body('e'));
  EXPECT_TRUE(plain.client->Await(kReplies).has_value());
  EXPECT_EQ(host_->counters().killed.value(), 0u);
}

}  // namespace
}  // namespace warpline::server
