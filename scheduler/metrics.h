// The scheduler's Prometheus metrics.
#ifndef WARPLINE_SCHEDULER_METRICS_H_
#define WARPLINE_SCHEDULER_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "scheduler/scheduler.h"

namespace warpline::scheduler {

// Thread-safe.
class SchedulerMetrics : public prometheus::Collectable {
 public:
  // `scheduler` is borrowed.
  explicit SchedulerMetrics(Scheduler* scheduler) : scheduler_(scheduler) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Scheduler* const scheduler_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_METRICS_H_
