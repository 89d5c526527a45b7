// What Prometheus scrapes: sums and states of the whole server, nothing about single tenants.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_METRICS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/gpu_server/session/session_host.h"

namespace warpline::server {

// Thread-safe. Reads the host's state at each scrape, so nothing is kept twice.
class ServerMetrics : public prometheus::Collectable {
 public:
  // `host` is borrowed.
  explicit ServerMetrics(SessionHost* host) : host_(host) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  SessionHost* const host_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_METRICS_H_
