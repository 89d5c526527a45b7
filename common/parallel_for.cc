#include "common/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace warpline {

absl::Status ParallelFor(int threads, uint64_t count,
                         const std::function<absl::Status(uint64_t)>& body) {
  std::atomic<uint64_t> next{0};
  Mutex mu;
  absl::Status first;
  const auto work = [&] {
    for (uint64_t i = next++; i < count; i = next++) {
      const absl::Status done = body(i);
      if (done.ok()) continue;
      next = count;
      MutexLock lock(&mu);
      if (first.ok()) first = done;
    }
  };
  std::vector<std::thread> others;
  const auto most = static_cast<uint64_t>(std::max(threads, 1));
  for (uint64_t i = 1; i < std::min(most, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return first;
}

}  // namespace warpline
