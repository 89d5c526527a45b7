#include "client_stub/session/waits/wait_spin.h"

#include <sched.h>

namespace warpline::stub {
namespace {

constexpr std::chrono::microseconds kSpin(40);

}  // namespace

// Spinning on the only processor keeps the loop from answering.
std::chrono::nanoseconds ChooseWaitSpin() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1) {
    return std::chrono::nanoseconds(0);
  }
  return kSpin;
}

}  // namespace warpline::stub
