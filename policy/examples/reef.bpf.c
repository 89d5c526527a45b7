/* Reef: work that is best effort makes way at once. An urgent slice goes first, a turn is given up
 * for it, and kernels that are in flight all the same are killed once they have been in the way for
 * PATIENCE_NS.
 *
 * After REEF (Han et al., OSDI 2022). Only slices that were made best effort are killed, and they
 * end with an error: see docs/policies.md. */
#include "warpline_policy.h"

WARPLINE_POLICY();
/* A slice that has the device for itself keeps a millisecond of work ahead, as in any turn, and not
 * 16: a row of short kernels, of which none is killed, is soon over. */
WARPLINE_ASK_ALWAYS(80);

#define PATIENCE_NS 2000000

enum { KILLS, CELLS };
WARPLINE_MAP(killed, WARPLINE_HASH, sizeof(u64), CELLS, 1024);

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  return ctx->more_urgent_waiting > 0 ? WARPLINE_SKIP : WARPLINE_DEFAULT;
}

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  if (ctx->waiting_priority <= ctx->priority) return WARPLINE_DEFAULT;
  /* A copy ends by itself. */
  int kernels = ctx->engine == WARPLINE_COMPUTE;
  if (kernels && ctx->killable && ctx->in_way_ns >= PATIENCE_NS) {
    u64 tenant = ctx->tenant;
    map_add(&killed, &tenant, KILLS, 1);
    return WARPLINE_KILL;
  }
  return ctx->level == 1 ? WARPLINE_YIELD : WARPLINE_KEEP;
}
