/* Throttle: kernels of best-effort tenants go slowly while a tenant with a deadline is at work on
 * the same device, or was a moment ago.
 *
 * Sessions of the guarded tier run at once, each on multiprocessors of its own, and share the way
 * to memory. A kernel that moves much memory is in the way of others there, and cannot be taken
 * back; but its threads ask how they are to go, in loops and where blocks begin, and nap each time.
 */
#include "warpline_policy.h"

WARPLINE_POLICY();

#define QUIET_NS 20000000 /* for how long after the urgent tenant's last work */
#define NAP_US 200

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  if (ctx->level != 2) return WARPLINE_DEFAULT;
  if (ctx->priority > 0 || ctx->waiting_ns > QUIET_NS) return WARPLINE_KEEP;
  return WARPLINE_THROTTLE_US(NAP_US);
}
