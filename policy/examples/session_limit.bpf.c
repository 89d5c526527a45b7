/* Session limit: a tenant has at most MOST sessions on a device; one more waits a while for another
 * to end, and is then refused. Urgent sessions are not held up for memory that others want, and
 * nobody waits for memory that no device has. */
#include "warpline_policy.h"

WARPLINE_POLICY();

#define MOST 4
#define LONGEST_NS 2000000000

enum { SINCE_NS, REFUSED, CELLS };
WARPLINE_MAP(waiting, WARPLINE_HASH, sizeof(u64), CELLS, 1024);

SEC("on_submit")
u64 submit(const struct warpline_on_submit* ctx) {
  u64 tenant = ctx->tenant;
  volatile u64* cells = map_lookup(&waiting, &tenant);
  if (ctx->queue_depth < MOST) {
    if (cells) cells[SINCE_NS] = 0;
    return WARPLINE_RUN;
  }
  if (!cells) {
    map_add(&waiting, &tenant, SINCE_NS, ctx->now_ns);
    return WARPLINE_HOLD_US(20000);
  }
  if (cells[SINCE_NS] == 0) cells[SINCE_NS] = ctx->now_ns;
  if (ctx->now_ns - cells[SINCE_NS] < LONGEST_NS) return WARPLINE_HOLD_US(20000);
  cells[SINCE_NS] = 0;
  map_add(&waiting, &tenant, REFUSED, 1);
  return WARPLINE_REJECT;
}

SEC("on_mem_fault")
u64 mem_fault(const struct warpline_on_mem_fault* ctx) {
  return ctx->wanted_bytes > ctx->quota_bytes ? WARPLINE_FAIL : WARPLINE_DEFAULT;
}

SEC("on_reclaim")
u64 reclaim(const struct warpline_on_reclaim* ctx) {
  return ctx->priority > 0 ? WARPLINE_KEEP : WARPLINE_DEFAULT;
}
