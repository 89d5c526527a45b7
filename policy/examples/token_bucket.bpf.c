/* Token bucket: each tenant may use the device for RATE thousandths of the time, and BURST_NS at
 * once, also while nobody else wants it. */
#include "warpline_policy.h"

WARPLINE_POLICY();
/* A kernel of a second is paid for in three. */
WARPLINE_ASK_ALWAYS(10000);

#define RATE 250
#define BURST_NS 20000000
#define LONGEST_WAIT_US 5000

enum { TOKENS, FILLED_AT_NS, CELLS };
WARPLINE_MAP(buckets, WARPLINE_HASH, sizeof(u64), CELLS, 1024);

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  u64 tenant = ctx->tenant;
  u64 now = ctx->now_ns;
  volatile u64* bucket = map_lookup(&buckets, &tenant);
  if (!bucket) {
    /* The first work of this tenant: its bucket is full. */
    map_add(&buckets, &tenant, TOKENS, BURST_NS);
    map_add(&buckets, &tenant, FILLED_AT_NS, now);
    return WARPLINE_RUN;
  }
  u64 earned = (now - bucket[FILLED_AT_NS]) * RATE / 1000;
  s64 tokens = bucket[TOKENS] + earned;
  if (tokens > BURST_NS) tokens = BURST_NS;
  bucket[TOKENS] = tokens;
  bucket[FILLED_AT_NS] = now;
  if (tokens > 0) return WARPLINE_RUN;
  u64 wait_us = (u64)-tokens / RATE + 1;
  return WARPLINE_HOLD_US(wait_us < LONGEST_WAIT_US ? wait_us : LONGEST_WAIT_US);
}

/* What the work took is known when it is complete, or has had a turn. The bucket may go below zero
 * by that. */
SEC("on_retire")
u64 retire(const struct warpline_on_retire* ctx) {
  u64 tenant = ctx->tenant;
  if (ctx->engine == WARPLINE_COMPUTE) map_add(&buckets, &tenant, TOKENS, -ctx->actual_ns);
  return WARPLINE_DEFAULT;
}
