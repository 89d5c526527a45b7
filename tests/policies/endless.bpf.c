/* Has everybody wait for ever, which no server puts up with. */
#include "warpline_policy.h"

WARPLINE_POLICY();

SEC("on_dispatch")
u64 dispatch(const struct warpline_on_dispatch* ctx) {
  (void)ctx;
  return WARPLINE_HOLD_US(1000);
}
