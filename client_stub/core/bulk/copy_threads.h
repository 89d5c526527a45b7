// Threads that help with copies which are too large for one.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. The helpers are started when they are first needed and live as long as the process.
// As many as pay on a machine that others use, too: a quarter of the processors, three at most.
class CopyThreads {
 public:
  CopyThreads();

  // Into how many parts a piece of work is best cut: the helpers and the caller.
  int parts() const { return most_helpers_ + 1; }

  // Calls work(0) to work(parts - 1), each once, on this thread and on such helpers as have nothing
  // else to do, and returns when all have returned.
  void Run(int parts, absl::FunctionRef<void(int part)> work);

 private:
  // Work that is under way; its caller's.
  struct Job {
    absl::FunctionRef<void(int)> work;
    int parts;
    int works;     // t_thread.works of the thread that waits.
    int next = 0;  // Not yet begun.
    int done = 0;
  };

  void Help();
  // Runs one part, without the lock. Returns false when all have been begun.
  bool RunNext(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartHelpers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int most_helpers_;
  Mutex mu_;
  CondVar changed_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  Job* job_ ABSL_GUARDED_BY(mu_) = nullptr;  // The one that the helpers see.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_
