// The streams and events of contexts that were opened together, with CUDA's ordering rules.
//
// Every stream that has ever had to queue something has a host thread that runs its operations one
// after the other. A context's legacy default stream waits for all its blocking streams, and they
// wait for it; non-blocking streams wait for no other stream. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_STREAMS_STREAM_SET_H_
#define WARPLINE_SERVER_DEVICE_CPU_STREAMS_STREAM_SET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::cpu {

class StreamSet {
 public:
  // An operation. Its error becomes the context's; anything but kSuccess is sticky from then on.
  using Work = std::function<CudaResult()>;

  enum class When {
    kQueued,         // On the stream's thread
    kNowIfPossible,  // On the caller's thread if nothing is before it; meant for short work
  };

  explicit StreamSet(uint32_t contexts = 1);
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;
  ~StreamSet() { Stop(); }
  // Drops what is queued, and waits for what runs, which should heed stopping(). Nothing runs from
  // then on.
  void Stop();

  // The legacy stream of a context.
  static constexpr uint64_t LegacyOf(uint32_t context) { return 1 + context; }

  // Set when the set stops: long operations should give up.
  const std::atomic<bool>& stopping() const { return stopping_; }

  // The sticky error, or kSuccess. An error of one context is an error of all.
  CudaResult error() const { return error_.load(std::memory_order_acquire); }

  CudaResult CreateStream(uint32_t context, uint32_t flags, uint64_t* stream);
  // Queued operations still run. kInvalidHandle for legacy streams and unknown ones.
  CudaResult DestroyStream(uint64_t stream);
  // Waits while the stream has very many operations queued.
  CudaResult Submit(uint64_t stream, When when, Work work);
  // Runs `work` on the caller's thread if nothing is before it on the stream; otherwise, and for an
  // unknown stream, does nothing and returns false. This spares a copy of what `work` refers to.
  bool RunIfIdle(uint64_t stream, const Work& work);

  CudaResult CreateEvent(uint32_t flags, uint64_t* event);
  CudaResult DestroyEvent(uint64_t event);
  CudaResult RecordEvent(uint64_t event, uint64_t stream);
  CudaResult WaitEvent(uint64_t stream, uint64_t event);
  CudaResult QueryEvent(uint64_t event);
  CudaResult ElapsedMs(uint64_t start, uint64_t end, float* ms);

  // Whether nothing is under way that was submitted to any stream, those included that were
  // destroyed.
  bool IsIdle();
  // Waits for everything submitted before the call.
  void Drain();

 private:
  // Whether an operation has been passed. Guarded by mu_.
  struct Completion {
    bool done = false;
    int64_t time_ns = 0;
  };
  using CompletionPtr = std::shared_ptr<Completion>;

  struct Operation {
    Work work;
    std::vector<CompletionPtr> waits;
    CompletionPtr completion;
  };

  struct Stream {
    uint32_t context = 0;
    bool legacy = false;
    bool blocking = true;
    bool closing = false;
    bool busy = false;      // An operation runs.
    bool finished = false;  // The thread has ended.
    std::deque<Operation> queue;
    CompletionPtr last;  // Completion of the operation submitted last
    std::thread thread;
  };

  struct Event {
    uint32_t flags = 0;
    CompletionPtr mark;
  };

  // Returns what an operation that is submitted now has to wait for.
  std::vector<CompletionPtr> Predecessors(const Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteLast(Stream* stream, const CompletionPtr& completion) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CompletionPtr SubmitLocked(const std::shared_ptr<Stream>& stream, When when, Work work,
                             const CompletionPtr& also) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunStream(const std::shared_ptr<Stream>& stream);
  void RunOne(Stream* stream, Operation* operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Stream> Find(uint64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JoinFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar changed_;  // An operation finished, was queued, or the set is stopping.
  std::atomic<bool> stopping_{false};
  std::atomic<CudaResult> error_{CudaResult::kSuccess};
  uint64_t next_stream_ ABSL_GUARDED_BY(mu_);
  uint64_t next_event_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Stream>> closing_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Event> events_ ABSL_GUARDED_BY(mu_);
  std::vector<CompletionPtr> last_legacy_ ABSL_GUARDED_BY(mu_);  // By context.
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_STREAMS_STREAM_SET_H_
