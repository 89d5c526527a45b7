// Functions of the application that run between the commands of a stream: cuLaunchHostFunc and
// cuStreamAddCallback.
//
// A HostCall command keeps the function's place in its stream. The worker says when its turn has
// come; our thread, one for the process, then runs the function and answers, and the stream goes
// on. As in CUDA, the functions of all streams run one after another.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_HOST_CALLS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_HOST_CALLS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. Never destroyed: its thread lives as long as the process.
class HostCalls {
 public:
  struct Call {
    CUhostFn function = nullptr;          // Either this or `callback` is set.
    CUstreamCallback callback = nullptr;  // Is also told of errors.
    CUstream stream = nullptr;            // The stream that `callback` is told.
    void* data = nullptr;
    bool in_stream = true;  // A stream waits for the call.
    uint64_t wire = 0;      // The number of that stream.
    bool cancelled = false;
  };

  // `session` is borrowed and must outlive this object.
  explicit HostCalls(Session* session);

  // Notes the call and returns the token for its HostCall command; 0 when the system has no thread
  // to run it.
  uint64_t Add(const Call& call);
  // Calls `function` on the thread that runs them, in no stream's order.
  void RunSoon(CUhostFn function, void* data);
  // Calls of the stream that have not begun are not made. Callbacks are told kCancelled instead.
  void Cancel(uint64_t wire);
  // Forgets a call whose command was not sent.
  void Forget(uint64_t token);

  // Returns true while some call has not returned.
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  // Called before a command of a stream while any(). The answer to a call takes the same way as the
  // commands behind it, and would not get through if those filled the worker's queues. So a thread
  // that has sent a great deal waits here until the calls have returned.
  void Pace(uint64_t bytes);

  // Returns when the calls that were added so far have returned.
  void Await();

  // Whether the calling thread is the one that runs the functions, which may not call CUDA.
  static bool OnThread();

 private:
  bool StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDue(uint64_t token);
  void Run();
  void FinishLocked(uint64_t token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Commands* const commands_;
  SessionStatus* const status_;
  std::atomic<uint64_t> count_{0};  // The size of calls_.

  Mutex mu_;
  CondVar changed_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_token_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mu_);  // By token, which is their order.
  std::deque<uint64_t> due_ ABSL_GUARDED_BY(mu_);
  // What was sent since the first of calls_.
  uint64_t paced_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t paced_commands_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_HOST_CALLS_H_
