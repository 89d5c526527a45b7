#include "common/steady_time.h"

#include <time.h>

#include "absl/time/clock.h"

namespace warpline {
namespace {

absl::Duration SinceBoot() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace

absl::Time SteadyNow() {
  static const absl::Time boot = absl::Now() - SinceBoot();
  return boot + SinceBoot();
}

}  // namespace warpline
