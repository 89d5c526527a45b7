// What the guard has to tell a session's user: which modules and kernels it refuses, and why.
#ifndef WARPLINE_SERVER_WORKER_CODE_GUARD_NOTES_H_
#define WARPLINE_SERVER_WORKER_CODE_GUARD_NOTES_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::worker {

// Thread-safe.
class GuardNotes {
 public:
  // A session that tries ever more modules is told of so many things.
  static constexpr size_t kMostNotes = 100;

  // Keeps a line, unless it was noted before.
  void Add(std::string line) {
    MutexLock lock(&mu_);
    if (known_.size() < kMostNotes && known_.insert(line).second)
      pending_.push_back(std::move(line));
  }
  // The lines that were added since.
  std::vector<std::string> Take() {
    MutexLock lock(&mu_);
    return std::exchange(pending_, {});
  }

 private:
  Mutex mu_;
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> pending_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CODE_GUARD_NOTES_H_
