#include "scheduler/tenant_rates.h"

#include <algorithm>

namespace warpline::scheduler {

bool TenantRates::Take(const std::string& tenant, absl::Time now) {
  Bucket& bucket = buckets_.try_emplace(tenant, Bucket{burst_, now}).first->second;
  const double more = std::max(0.0, absl::ToDoubleSeconds(now - bucket.filled)) * per_second_;
  bucket.calls = std::min(burst_, bucket.calls + more);
  bucket.filled = now;
  if (bucket.calls < 1) return false;
  bucket.calls -= 1;
  return true;
}

}  // namespace warpline::scheduler
