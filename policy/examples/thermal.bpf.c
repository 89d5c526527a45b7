/* Thermal: a hot device is given rest, the more of it the hotter it is, so that it does not get so
 * hot that its own clocks go down. Slows urgent work down as well, since heat is everybody's. */
#include "warpline_policy.h"

WARPLINE_POLICY();
WARPLINE_ASK_ALWAYS(80);

#define WARM_C 80
#define US_PER_C 100 /* of each millisecond */
#define MOST_US 900

SEC("on_thermal")
u64 thermal(const struct warpline_on_thermal* ctx) {
  s32 above = ctx->temperature_c - WARM_C;
  if (above <= 0) return WARPLINE_RUN;
  u64 us = (u64)above * US_PER_C;
  if (us > MOST_US) us = MOST_US;
  return WARPLINE_THROTTLE_US(us);
}
