// Tests that what workers count reaches the metrics and `warpline stat`.
#include "server/gpu_server/admin/metrics.h"

#include <prometheus/metric_family.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/admin/admin_service.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline::server {
namespace {

// Sums over as many sessions as a server has must not overflow.
constexpr uint64_t kMostPerSession = 1ull << 48;

class MetricsTest : public SessionFixture {
 protected:
  // The metric of `row`; nothing without it.
  std::optional<double> Metric(const UsageInfo& row) const {
    for (const prometheus::MetricFamily& family : ServerMetrics(host_.get()).Collect()) {
      if (family.name != row.metric || family.help != row.help) continue;
      const bool total = row.kind == UsageKind::kTotal;
      for (const prometheus::ClientMetric& metric : family.metric) {
        if (row.label == nullptr ? !metric.label.empty()
                                 : metric.label.empty() || metric.label[0].name != row.label ||
                                       metric.label[0].value != row.label_value) {
          continue;
        }
        return total ? metric.counter.value : metric.gauge.value;
      }
    }
    return std::nullopt;
  }

  // A session whose worker has written the largest numbers everywhere.
  std::unique_ptr<TestClient> DialToFilled() {
    auto client = DialAndOpen();
    client->SendCommands(Body('f'));
    EXPECT_TRUE(client->Await(kReplies).has_value());
    return client;
  }
};

TEST_F(MetricsTest, EveryRowOfTheTableIsAMetric) {
  StartServer();
  for (const UsageInfo& row : kUsageTable) EXPECT_EQ(Metric(row), 0) << row.metric;
}

TEST_F(MetricsTest, WhatAWorkerWritesIsBounded) {
  StartServer();
  auto client = DialToFilled();
  for (const UsageInfo& row : kUsageTable) {
    EXPECT_EQ(Metric(row), static_cast<double>(kMostPerSession)) << row.metric;
  }
}

TEST_F(MetricsTest, TotalsOutliveTheirSessions) {
  StartServer();
  DialToFilled().reset();
  while (!host_->Snapshot().sessions.empty()) std::this_thread::yield();
  for (const UsageInfo& row : kUsageTable) {
    const uint64_t left = row.kind == UsageKind::kTotal ? kMostPerSession : 0;
    EXPECT_EQ(Metric(row), static_cast<double>(left)) << row.metric;
  }
}

TEST_F(MetricsTest, EnginesAreInTheStatisticsOfASession) {
  SessionSnapshot snapshot;
  snapshot.engines[0].busy_ns = 2'500'000;
  snapshot.engines[2].bytes = 1 << 20;
  warpline_internal::SessionStat stat;
  FillSessionStat(snapshot, &stat);
  std::map<std::string, uint64_t> found;
  for (const auto& usage : stat.usage()) found[usage.name()] = usage.value();
  EXPECT_EQ(found["compute_us"], 2500u);
  EXPECT_EQ(found["copy_in_us"], 0u);
  EXPECT_EQ(found["copied_out"], uint64_t{1} << 20);
}

TEST_F(MetricsTest, EveryRowIsInTheStatisticsOfASession) {
  StartServer();
  auto client = DialToFilled();
  warpline_internal::SessionStat stat;
  FillSessionStat(host_->Snapshot().sessions.at(0), &stat);
  for (const UsageInfo& row : kUsageTable) {
    uint64_t expected = 0;
    for (const UsageInfo& other : kUsageTable) {
      if (std::strcmp(other.stat, row.stat) == 0) expected += kMostPerSession;
    }
    int found = 0;
    for (const auto& usage : stat.usage()) {
      if (usage.name() != row.stat) continue;
      ++found;
      EXPECT_EQ(usage.value(), expected) << row.stat;
      EXPECT_EQ(usage.bytes(), row.kind == UsageKind::kHeldBytes) << row.stat;
    }
    EXPECT_EQ(found, 1) << row.stat;
  }
  EXPECT_EQ(stat.handles(), kMostPerSession);
  EXPECT_EQ(stat.limits_reached(), kLimitCount * kMostPerSession);
}

}  // namespace
}  // namespace warpline::server
