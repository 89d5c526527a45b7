/* Latency guard: best-effort work waits while a tenant with a deadline waits, or has run a moment
 * ago, and makes way for it.
 *
 * A tenant that answers requests leaves short gaps between its kernels. Work that is begun in such
 * a gap is in the way of the next kernel, since a kernel is not taken back. Nor is what is in
 * flight when the next request comes: where these come at regular intervals, little is then. */
#include "warpline_policy.h"

WARPLINE_POLICY();
WARPLINE_EXPECT_ARRIVALS();

#define QUIET_NS 300000     /* how long ago urgent work must have run */
#define STARVED_NS 50000000 /* best-effort work that has waited for so long runs all the same */
#define SHORT_NS 20000      /* work that is in nobody's way */
#define DEVICES 64          /* that are guarded, from number 0 on; two engines each */

enum { LAST_URGENT_NS, HELD, CELLS };
WARPLINE_MAP(engines, WARPLINE_ARRAY, sizeof(u32), CELLS, 2 * DEVICES);

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  u32 engine = 2 * ctx->device + ctx->engine;
  volatile u64* seen = map_lookup(&engines, &engine);
  if (!seen) return WARPLINE_DEFAULT;
  if (ctx->priority > 0) {
    seen[LAST_URGENT_NS] = ctx->now_ns;
    return WARPLINE_RUN;
  }
  if (ctx->wait_ns > STARVED_NS) return WARPLINE_RUN;
  if (ctx->more_urgent_waiting > 0) {
    map_add(&engines, &engine, HELD, 1);
    return WARPLINE_HOLD;
  }
  u64 ago = ctx->now_ns - seen[LAST_URGENT_NS];
  if (ago >= QUIET_NS) return WARPLINE_RUN;
  if (ctx->expected_ns != 0 && ctx->expected_ns <= SHORT_NS) return WARPLINE_RUN;
  map_add(&engines, &engine, HELD, 1);
  return WARPLINE_HOLD_US((QUIET_NS - ago) / 1000 + 1);
}

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  if (ctx->level > 1 || ctx->priority > 0 || ctx->waiting_priority <= 0) return WARPLINE_DEFAULT;
  return WARPLINE_YIELD;
}
