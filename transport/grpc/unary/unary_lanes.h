// Runs what unary methods do on a thread of its own, in several queues, of which each in turn has
// one piece of work done: however much waits in one lane, the first of another waits for a single
// piece of it. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_LANES_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_LANES_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::grpc_internal {

// Thread-safe.
class UnaryLanes {
 public:
  // `run` is false when the lanes stop: it is to be answered without being done.
  using Work = std::function<void(bool run)>;

  // Starts the thread, unless there is no lane. At most `most_waiting` wait in each.
  UnaryLanes(size_t lanes, size_t most_waiting);
  ~UnaryLanes() { Stop(); }
  UnaryLanes(const UnaryLanes&) = delete;
  UnaryLanes& operator=(const UnaryLanes&) = delete;

  // False when too many wait in the lane already, or after Stop().
  bool Post(size_t lane, Work work);
  // Calls what waits, and returns when nothing is under way any more.
  void Stop();

 private:
  void Run();
  // False when nothing waits. Looks at the lanes in turn.
  bool TakeNext(Work* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t most_waiting_;
  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::deque<Work>> lanes_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;  // The lane whose turn it is.
  std::thread thread_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_LANES_H_
