// Prometheus metrics of each tenant. The listener for them is plain text, and says nothing of
// tenants unless the operator asked for it (--tenant_metrics).
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_TENANT_METRICS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_TENANT_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "server/gpu_server/session/session_host.h"
#include "server/hostlink/handover/tenant_totals.h"

namespace warpline::server {

// Thread-safe. A series has the labels tenant, gpu and UUID, the last two as DCGM's exporter names
// them, so that both can be joined. Tenants beyond `most_tenants`, those with the least memory
// first, are together under the name of TenantTotals::kOthers.
class TenantMetrics : public prometheus::Collectable {
 public:
  // `host` is borrowed.
  explicit TenantMetrics(SessionHost* host, size_t most_tenants = 1000)
      : host_(host), most_tenants_(most_tenants) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Held {
    uint64_t sessions = 0;
    uint64_t memory_bytes = 0;
  };
  using Totals = std::map<TenantTotals::Key, TenantTotal>;
  using Holdings = std::map<TenantTotals::Key, Held>;

  // Adds the smallest tenants up.
  void Fold(Totals* totals, Holdings* held) const;
  // Totals do not fall, though a session that ends is for a moment counted as both.
  void KeepFromFalling(Totals* totals) const;

  SessionHost* const host_;
  const size_t most_tenants_;
  mutable Mutex mu_;
  mutable Totals said_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_TENANT_METRICS_H_
