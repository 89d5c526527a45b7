#include "scheduler/metrics.h"

#include <prometheus/metric_family.h>

#include <utility>

#include "transport/grpc/meter/metered_connections.h"

namespace warpline::scheduler {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(const char* name, const char* help, MetricType type, uint64_t value) {
  prometheus::ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  metric.gauge.value = static_cast<double>(value);
  return {name, help, type, {metric}};
}

MetricFamily MovesFamily(const SchedulerCounts& counts) {
  MetricFamily family = {"warpline_scheduler_moves_total",
                         "Moves of leases to other servers that are over.",
                         MetricType::Counter,
                         {}};
  for (const auto& [result, count] :
       {std::pair("moved", counts.moved), std::pair("failed", counts.moves_failed)}) {
    prometheus::ClientMetric metric;
    metric.label = {{"result", result}};
    metric.counter.value = static_cast<double>(count);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

void AddTenants(const std::vector<TenantCount>& tenants, std::vector<MetricFamily>* families) {
  const auto add = [&](const char* name, const char* help, uint64_t TenantCount::*field) {
    MetricFamily family = {name, help, MetricType::Gauge, {}};
    for (const TenantCount& tenant : tenants) {
      prometheus::ClientMetric metric;
      metric.label = {{"tenant", tenant.name}};
      metric.gauge.value = static_cast<double>(tenant.*field);
      family.metric.push_back(std::move(metric));
    }
    families->push_back(std::move(family));
  };
  add("warpline_scheduler_tenant_leases", "Leases that a tenant holds.", &TenantCount::leases);
  add("warpline_scheduler_tenant_leased_bytes", "Device memory of a tenant's leases.",
      &TenantCount::leased_bytes);
  add("warpline_scheduler_tenant_quota_bytes", "What a tenant may lease; 0 for no limit.",
      &TenantCount::quota_bytes);
  add("warpline_scheduler_tenant_reserved_bytes", "What is reserved for a tenant.",
      &TenantCount::reserved_bytes);
  add("warpline_scheduler_tenant_waiting", "A tenant's requests that wait for a lease.",
      &TenantCount::waiting);
}

}  // namespace

std::vector<MetricFamily> SchedulerMetrics::Collect() const {
  const auto scheduler = role_->Leading();
  SchedulerCounts counts;
  uint64_t epoch = 0;
  if (scheduler.ok()) {
    counts = (*scheduler)->Counts();
    epoch = (*scheduler)->Epoch();
  }
  constexpr auto kGauge = MetricType::Gauge;
  constexpr auto kCounter = MetricType::Counter;
  std::vector<MetricFamily> families = {
      Family("warpline_scheduler_leads", "1 if this scheduler decides, 0 if another one does.",
             kGauge, scheduler.ok() ? 1 : 0),
      Family("warpline_scheduler_epoch", "The number of the term in which it leads.", kGauge,
             epoch),
      Family("warpline_scheduler_connections_cut_total",
             "Connections that were cut because they flooded HTTP/2.", kCounter,
             grpc_internal::CutConnections()),
      Family("warpline_scheduler_tenants", "Tenants.", kGauge, counts.tenants),
      Family("warpline_scheduler_servers_up", "Servers that report.", kGauge, counts.servers_up),
      Family("warpline_scheduler_servers_lost", "Servers that have stopped reporting.", kGauge,
             counts.servers_lost),
      Family("warpline_scheduler_duplicate_reports_total",
             "Reports refused since another server reports by the same name.", kCounter,
             counts.duplicates),
      Family("warpline_scheduler_sessions", "Sessions on servers that report.", kGauge,
             counts.sessions),
      Family("warpline_scheduler_leases", "Leases that are held.", kGauge, counts.leases),
      Family("warpline_scheduler_leased_bytes", "Device memory of leases that are held.", kGauge,
             counts.leased_bytes),
      Family("warpline_scheduler_capacity_bytes", "Device memory of servers that report.", kGauge,
             counts.capacity_bytes),
      Family("warpline_scheduler_waiting", "Requests that wait for a lease.", kGauge,
             counts.waiting),
      Family("warpline_scheduler_preempted_total",
             "Leases that ended for others or for a server that was drained.", kCounter,
             counts.preempted),
      MovesFamily(counts),
      Family("warpline_scheduler_granted_total", "Leases granted.", kCounter, counts.granted),
      Family("warpline_scheduler_refused_total", "Requests without a lease for lack of capacity.",
             kCounter, counts.refused),
      Family("warpline_scheduler_expired_total", "Leases that ran out.", kCounter, counts.expired),
      Family("warpline_scheduler_revoked_total", "Leases that the operator revoked.", kCounter,
             counts.revoked),
      Family("warpline_scheduler_rejected_total", "Requests with a wrong credential or token.",
             kCounter, counts.rejected),
  };
  if (tenants_ && scheduler.ok()) AddTenants((*scheduler)->TenantCounts(kMostTenants), &families);
  return families;
}

}  // namespace warpline::scheduler
