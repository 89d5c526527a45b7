// How often each tenant may call: a token bucket each.
#ifndef WARPLINE_SCHEDULER_TENANT_RATES_H_
#define WARPLINE_SCHEDULER_TENANT_RATES_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace warpline::scheduler {

// Thread-compatible. Keeps an entry for each tenant that it was asked about, of which there are
// few.
class TenantRates {
 public:
  // In the long run a tenant may call `per_second` times a second, and `burst` times at once.
  TenantRates(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Whether the tenant may call now; counts the call if so. `now` does not go back.
  bool Take(const std::string& tenant, absl::Time now);

 private:
  struct Bucket {
    double calls;  // That are left.
    absl::Time filled;
  };

  const double per_second_;
  const double burst_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_TENANT_RATES_H_
