#include "common/loop/short_slices.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace warpline {
namespace {

// The kernel's shortest is 100, its usual one some 3,000 microseconds. Shorter ones than this cost
// more switches between threads and gained nothing.
constexpr uint64_t kSliceNs = 500'000;

}  // namespace

void AskForShortSlices() {
  sched_attr attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.sched_policy != SCHED_NORMAL) return;
  // Perhaps it is short already; 0 says that the kernel has no such thing.
  if (attributes.sched_runtime != 0 && attributes.sched_runtime <= kSliceNs) return;
  attributes.sched_runtime = kSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace warpline
