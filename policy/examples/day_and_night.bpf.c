/* Day and night: between 8 and 20 o'clock UTC batch tenants together get a quarter of what they
 * have at night. Work of priority 0 is batch work. */
#include "warpline_policy.h"

WARPLINE_POLICY();

#define HOUR 3600
#define DAY_BEGINS (8 * HOUR)
#define DAY_ENDS (20 * HOUR)

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  u32 second = ctx->day_second;
  if (ctx->priority > 0 || second < DAY_BEGINS || second >= DAY_ENDS) return WARPLINE_DEFAULT;
  if (ctx->used_share > ctx->bw_share / 4) return WARPLINE_HOLD_US(1000);
  return WARPLINE_DEFAULT;
}
