/* Keeps kernels of the guarded tier apart from every more urgent tenant's, whatever they cost it.
 */
#include "warpline_policy.h"

WARPLINE_POLICY();

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  return ctx->level == 2 ? WARPLINE_HOLD_US(2000) : WARPLINE_DEFAULT;
}
