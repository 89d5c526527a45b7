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
  // `role` is borrowed. Where another scheduler leads, it says so and counts nothing.
  explicit SchedulerMetrics(Role* role) : role_(role) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Role* const role_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_METRICS_H_
