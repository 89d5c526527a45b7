// Threads that help with copies that are too large for one thread.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. The helpers start when they are first needed, and live as long as the process. There
// is one for every four processors of the process, but at most three: others use the machine, too.
class CopyThreads {
 public:
  CopyThreads();

  // Returns the best number of parts for a piece of work: one for each helper and one for the
  // caller.
  int parts() const { return most_helpers_ + 1; }

  // Calls work(0) to work(parts - 1), each once, on this thread and on idle helpers. Returns when
  // all have returned.
  void Run(int parts, absl::FunctionRef<void(int part)> work);

 private:
  // Work that is under way. It belongs to its caller.
  struct Job {
    absl::FunctionRef<void(int)> work;
    int parts;
    int works;     // t_thread.works of the calling thread.
    int next = 0;  // The next part to begin.
    int done = 0;  // Parts that are done.
  };

  void Help();
  // Runs one part, without the lock. Returns false when all have been begun.
  bool RunNext(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartHelpers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int most_helpers_;
  Mutex mu_;
  CondVar changed_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  Job* job_ ABSL_GUARDED_BY(mu_) = nullptr;  // The job that the helpers see; null for none.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_COPY_THREADS_H_
