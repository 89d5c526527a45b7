#include "server/worker/host/kernel_pace.h"

#include <utility>

#include "absl/memory/memory.h"
#include "transport/loop_thread.h"

namespace warpline::worker {

absl::StatusOr<std::unique_ptr<KernelPacer>> KernelPacer::Start() {
  auto pacer = absl::WrapUnique(new KernelPacer);
  auto thread = TryStartLoopThread("wl-pacer", [at = pacer.get()] { at->Run(); });
  if (!thread.ok()) return thread.status();
  pacer->thread_ = *std::move(thread);
  return pacer;
}

KernelPacer::~KernelPacer() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void KernelPacer::Set(std::shared_ptr<KernelPace> pace, uint32_t nap_ns) {
  MutexLock lock(&mu_);
  wanted_[std::move(pace)] = nap_ns;
  changed_.NotifyAll();
}

void KernelPacer::Run() {
  for (;;) {
    std::map<std::shared_ptr<KernelPace>, uint32_t> wanted;
    {
      MutexLock lock(&mu_);
      while (wanted_.empty() && !stop_) changed_.Wait(&mu_);
      if (stop_) return;
      wanted.swap(wanted_);
    }
    for (const auto& [pace, nap_ns] : wanted) pace->Set(nap_ns);
  }
}

}  // namespace warpline::worker
