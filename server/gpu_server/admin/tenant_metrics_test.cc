// Tests of what Prometheus is told of each tenant.
#include "server/gpu_server/admin/tenant_metrics.h"

#include <prometheus/metric_family.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/handover/counters.h"
#include "server/hostlink/handover/tenant_totals.h"

namespace warpline::server {
namespace {

class TenantMetricsTest : public SessionFixture {
 protected:
  // What a tenant's series of this name add up to; nothing without one.
  std::optional<double> Sum(const TenantMetrics& metrics, const std::string& name,
                            const std::string& tenant) const {
    std::optional<double> sum;
    for (const prometheus::MetricFamily& family : metrics.Collect()) {
      if (family.name != name) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        EXPECT_EQ(metric.label[0].name, "tenant");
        EXPECT_EQ(metric.label[1].name, "gpu");
        EXPECT_EQ(metric.label[2].name, "UUID");
        if (metric.label[0].value != tenant) continue;
        sum =
            sum.value_or(0) + (family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                                              : metric.gauge.value);
      }
    }
    return sum;
  }

  // As if sessions of so many tenants had ended.
  void EndTenants(int count) {
    for (int i = 0; i < count; ++i) {
      TenantTotal total;
      total.sessions = 1;
      total.commands = 10;
      const_cast<ServerCounters&>(host_->counters())
          .ended_tenants.Add({"tenant" + std::to_string(i), 0}, total);
    }
  }
};

TEST_F(TenantMetricsTest, ASessionIsOfItsTenantAndItsTotalsOutliveIt) {
  StartServer();
  const TenantMetrics metrics(host_.get());
  EXPECT_EQ(Sum(metrics, "warpline_tenant_sessions", ""), std::nullopt);
  auto client = DialAndOpen();
  EXPECT_EQ(Sum(metrics, "warpline_tenant_sessions", ""), 1);
  EXPECT_EQ(Sum(metrics, "warpline_tenant_sessions_total", ""), 1);
  client.reset();
  while (!host_->Snapshot().sessions.empty()) std::this_thread::yield();
  EXPECT_EQ(Sum(metrics, "warpline_tenant_sessions", ""), std::nullopt);
  EXPECT_EQ(Sum(metrics, "warpline_tenant_sessions_total", ""), 1);
}

TEST_F(TenantMetricsTest, TotalsDoNotFallWhenASessionWasCountedAsBoth) {
  StartServer();
  const TenantMetrics metrics(host_.get());
  EndTenants(1);
  EXPECT_EQ(Sum(metrics, "warpline_tenant_commands_total", "tenant0"), 10);
  EXPECT_EQ(Sum(metrics, "warpline_tenant_commands_total", "tenant0"), 10);
  EndTenants(1);
  EXPECT_EQ(Sum(metrics, "warpline_tenant_commands_total", "tenant0"), 20);
}

TEST_F(TenantMetricsTest, TenantsBeyondTheMostAreAddedUp) {
  StartServer();
  EndTenants(20);
  const TenantMetrics metrics(host_.get(), 5);
  std::map<std::string, double> commands;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    if (family.name != "warpline_tenant_commands_total") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      commands[metric.label[0].value] += metric.counter.value;
    }
  }
  EXPECT_EQ(commands.size(), 6u);
  EXPECT_EQ(commands[TenantTotals::kOthers], 150);
}

}  // namespace
}  // namespace warpline::server
