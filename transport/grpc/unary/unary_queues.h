// Runs the work of unary methods on a thread of its own, in several queues. Each queue in turn has
// one piece of work done. However much waits in one queue, the first of another waits for a single
// piece of it. Within a queue callers have turns in the same way. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_QUEUES_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_QUEUES_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "transport/unary_methods.h"

namespace warpline::grpc_internal {

// What may wait: a second's worth for a scheduler with a slow disk.
struct WaitingLimits {
  size_t most_of_caller = 256;
  size_t most_bytes_of_caller = size_t{8} << 20;
  // In a queue. Callers that are known are not counted against these.
  size_t most_of_others = 1024;
  size_t most_bytes_of_others = size_t{32} << 20;
};

// Thread-safe.
class UnaryQueues {
 public:
  // `run` is false when the queues stop: it is to be answered without being done.
  using Work = std::function<void(bool run)>;

  // Starts the thread, unless there is no queue.
  UnaryQueues(size_t queues, const WaitingLimits& limits);
  ~UnaryQueues() { Stop(); }
  UnaryQueues(const UnaryQueues&) = delete;
  UnaryQueues& operator=(const UnaryQueues&) = delete;

  // `bytes` is what the work holds. Returns false when too much waits already, or after Stop().
  bool Post(size_t queue, const UnaryCaller& caller, size_t bytes, Work work);
  // Calls what waits, and returns when nothing is under way any more.
  void Stop();

 private:
  struct Waiting {
    size_t bytes = 0;
    Work work;
  };
  struct Amount {
    size_t count = 0;
    size_t bytes = 0;
    bool Fits(size_t more, size_t most, size_t most_bytes) const {
      return count < most && bytes + more <= most_bytes;
    }
  };
  struct CallerQueue {
    bool known = false;
    Amount amount;
    std::deque<Waiting> waiting;
  };
  struct Queue {
    std::map<std::string, CallerQueue> callers;  // By caller. None of them is empty.
    std::string last;                            // The caller that had the latest turn.
    Amount of_others;
  };

  void Run();
  // False when nothing waits. Looks at the queues in turn.
  bool TakeNext(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WaitingLimits limits_;
  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Queue> queues_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;  // The queue whose turn it is.
  std::thread thread_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_QUEUES_H_
