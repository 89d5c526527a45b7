// A scheduler with a clock of the test, on either kind of store, and what tenants and servers say
// to it.
#ifndef WARPLINE_SCHEDULER_SCHEDULER_FIXTURE_H_
#define WARPLINE_SCHEDULER_SCHEDULER_FIXTURE_H_

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "scheduler/service_accounts/account_gate.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/testing/state_house.h"

namespace warpline::scheduler {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::ReportReply;
using warpline_internal::ServerReport;

inline constexpr uint64_t kGiB = 1ull << 30;

// Tests of it are made for both kinds with INSTANTIATE_TEST_SUITE_P(States, SchedulerTest,
// kStateKinds, StateKindName).
class SchedulerTest : public ::testing::TestWithParam<StateKind> {
 protected:
  SchedulerTest() : folder_(::testing::TempDir() + "/scheduler_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) abort();
  }

  void SetUp() override {
    house_ = StateHouse::Make(GetParam(), folder_);
    if (house_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    Restart();
  }

  void Restart() {
    scheduler_.reset();
    SchedulerOptions options;
    options.operator_credential = "operator";
    options.max_leases = max_leases_;
    options.lost_after = lost_after_;
    options.placement = placement_;
    options.decisions.folder = folder_ + "/decisions";
    options.accounts = accounts_;
    options.audit = audit_;
    options.clock = [this] { return now_; };
    auto keys = KeyRing::Open(folder_ + "/keys", absl::Hours(1), absl::Seconds(5), now_);
    auto store = house_->OpenStore();
    ASSERT_TRUE(keys.ok() && store.ok());
    auto scheduler = Scheduler::Create(options, *std::move(store), *std::move(keys));
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
  }

  static ServerReport Report(const std::string& name) {
    ServerReport report;
    report.set_name(name);
    report.set_endpoint(name + ":14000");
    auto* device = report.add_devices();
    device->set_uuid("GPU-" + name);
    device->set_capacity_bytes(16 * kGiB);
    return report;
  }

  absl::StatusOr<warpline_internal::StatReply> StatOf(const std::string& operators,
                                                      const std::string& tenants) {
    warpline_internal::StatRequest request;
    request.set_operator_credential(operators);
    request.set_tenant_credential(tenants);
    return scheduler_->Stat(request, "pool");
  }

  ReportReply Tell(const ServerReport& report) {
    auto reply = scheduler_->Report(WithCredential(report), true);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(ReportReply());
  }

  // Adds the credential that AddServer() gave the report's server.
  ServerReport WithCredential(ServerReport report) const {
    const auto found = servers_.find(report.name());
    if (found != servers_.end()) report.set_credential(found->second);
    return report;
  }

  static warpline_internal::ServerRequest ServerNamed(const std::string& name, bool create) {
    warpline_internal::ServerRequest request;
    request.set_credential("operator");
    request.set_name(name);
    request.set_create(create);
    return request;
  }

  void AddServer(const std::string& name, bool create = true) {
    const auto reply = scheduler_->PutServer(ServerNamed(name, create));
    ASSERT_TRUE(reply.ok()) << reply.status();
    servers_[name] = reply->credential();
  }

  absl::StatusOr<LeaseReply> Acquire(uint64_t gib, const std::string& credential = "",
                                     bool by_sessions = false) {
    AcquireRequest request;
    request.set_memory_bytes(gib * kGiB);
    request.set_credential(credential);
    return scheduler_->Acquire(request, by_sessions, true);
  }

  static ServerReport WithSessions(ServerReport report, const std::string& lease) {
    auto* added = report.add_leases();
    added->set_lease(lease);
    added->set_sessions(1);
    return report;
  }

  std::string AddTenant(const std::string& name, uint64_t gib, uint32_t leases, uint64_t seconds,
                        warpline_internal::TenantRequest request = {}) {
    for (const char* server : {"a", "b"}) {
      if (servers_.count(server) == 0) AddServer(server);
    }
    request.set_credential("operator");
    request.set_name(name);
    request.set_memory_bytes(gib * kGiB);
    request.set_max_leases(leases);
    request.set_max_seconds(seconds);
    request.set_create(true);
    auto reply = scheduler_->PutTenant(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->credential() : "";
  }

  void Pass(absl::Duration time) {
    now_ += time;
    scheduler_->Housekeep();
  }

  std::string folder_;
  absl::Duration lost_after_ = absl::Seconds(5);
  size_t max_leases_ = 8;
  placement::AllocatorOptions placement_;
  std::shared_ptr<AccountGate> accounts_;
  audit::AuditLog* audit_ = nullptr;
  std::unique_ptr<StateHouse> house_;
  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  std::unique_ptr<Scheduler> scheduler_;
  std::map<std::string, std::string> servers_;  // Their credentials.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SCHEDULER_FIXTURE_H_
