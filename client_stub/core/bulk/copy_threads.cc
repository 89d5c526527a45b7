#include "client_stub/core/bulk/copy_threads.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "client_stub/core/runtime/thread_state.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

constexpr int kMostHelpers = 3;

int HelpersThatPay() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return std::min(CPU_COUNT(&set) / 4, kMostHelpers);
}

}  // namespace

CopyThreads::CopyThreads() : most_helpers_(HelpersThatPay()) {}

void CopyThreads::Run(int parts, absl::FunctionRef<void(int part)> work) {
  Job job = {work, parts, t_thread.works};
  MutexLock lock(&mu_);
  const bool shared = parts > 1 && job_ == nullptr;
  if (shared) {
    StartHelpers();
    job_ = &job;
    changed_.NotifyAll();
  }
  while (RunNext(&job)) {
  }
  while (job.done < job.parts) changed_.Wait(&mu_);
  if (shared) job_ = nullptr;
}

bool CopyThreads::RunNext(Job* job) {
  if (job->next == job->parts) return false;
  const int part = job->next++;
  mu_.Unlock();
  // A fault of a helper counts as one of the thread that it helps, and does not wait for that
  // thread.
  const int own_works = std::exchange(t_thread.works, job->works);
  job->work(part);
  t_thread.works = own_works;
  mu_.Lock();
  if (++job->done == job->parts) changed_.NotifyAll();
  return true;
}

void CopyThreads::StartHelpers() {
  if (started_) return;
  started_ = true;
  for (int i = 0; i < most_helpers_; ++i) {
    auto thread = TryStartLoopThread("wl-copy", [this] {
      // A helper reads and writes the application's memory, which may be mirrored: the
      // application's thread would take the signal that fetches a page (managed/fault_handler.h).
      UnblockSignals({SIGSEGV, SIGBUS});
      Help();
    });
    // Without this thread the others have more to do.
    if (thread.ok()) thread->detach();
  }
}

void CopyThreads::Help() {
  MutexLock lock(&mu_);
  while (true) {
    // The job may be gone once the last of its parts is done.
    if (job_ == nullptr || !RunNext(job_)) changed_.Wait(&mu_);
  }
}

}  // namespace warpline::stub
