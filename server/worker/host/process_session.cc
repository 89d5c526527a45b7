#include "server/worker/host/process_session.h"

#include "absl/time/clock.h"

namespace warpline::worker {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(1);

// An error is not waited for: the context is of no use to anybody.
bool AwaitIdle(device::Context* context, absl::Duration patience) {
  const absl::Time until = absl::Now() + patience;
  while (context->QueryIdle() == CudaResult::kNotReady) {
    if (absl::Now() >= until) return false;
    absl::SleepFor(kLook);
  }
  return true;
}

}  // namespace

bool ProcessSession::End(absl::Duration patience) {
  if (overdue != nullptr) overdue->Ask(nullptr);
  open = false;
  if (context == nullptr) return true;
  if (ring != nullptr) ring->Stop();
  if (!AwaitIdle(context.get(), patience)) {
    (void)ring.release();
    (void)memory.release();
    (void)context.release();
    return false;
  }
  ring = nullptr;
  memory = nullptr;
  context = nullptr;
  return true;
}

}  // namespace warpline::worker
