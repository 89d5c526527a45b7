// The scheduler's Prometheus metrics.
#ifndef WARPLINE_SCHEDULER_METRICS_H_
#define WARPLINE_SCHEDULER_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "scheduler/role.h"

namespace warpline::scheduler {

// Thread-safe.
class SchedulerMetrics : public prometheus::Collectable {
 public:
  // `role` is borrowed. Where another scheduler leads, it says so and counts nothing. With
  // `tenants` there are series of each tenant, up to kMostTenants: those that have most leased come
  // first.
  explicit SchedulerMetrics(Role* role, bool tenants = false) : role_(role), tenants_(tenants) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  static constexpr size_t kMostTenants = 1000;

  Role* const role_;
  const bool tenants_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_METRICS_H_
