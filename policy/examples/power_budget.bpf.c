/* Power budget: near the device's power limit, or when it is hot, only urgent work is begun, and of
 * the rest what is short, or has waited for long. Holds for a tenant that is alone as well. */
#include "warpline_policy.h"

WARPLINE_POLICY();
WARPLINE_ASK_ALWAYS(5000);

#define BUDGET_PERCENT 90
#define HOT_C 83
#define SHORT_NS 100000
#define STARVED_NS 2000000000 /* a turn in so long costs little power */

enum { HELD, PEAK_MW, CELLS };
WARPLINE_MAP(power, WARPLINE_ARRAY, sizeof(u32), CELLS, 1);

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  u32 zero = 0;
  volatile u64* seen = map_lookup(&power, &zero);
  if (!seen) return WARPLINE_DEFAULT;
  u64 mw = ctx->power_mw;
  if (mw > seen[PEAK_MW]) seen[PEAK_MW] = mw;

  int over = mw * 100 > (u64)ctx->power_limit_mw * BUDGET_PERCENT;
  if (!over && ctx->temperature_c < HOT_C) return WARPLINE_DEFAULT;
  if (ctx->priority > 0) return WARPLINE_RUN;
  if (ctx->expected_ns != 0 && ctx->expected_ns <= SHORT_NS) return WARPLINE_DEFAULT;
  if (ctx->wait_ns > STARVED_NS) return WARPLINE_DEFAULT;
  if (seen[HELD]++ == 0) audit(1);
  return WARPLINE_HOLD_US(2000);
}
