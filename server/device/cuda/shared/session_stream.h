// A stream of a context of a shared device. For the driver every such stream is non-blocking; its
// kind says how it takes part in CUDA's legacy order (legacy_order.h).
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/green_contexts.h"
#include "server/device/cuda/shared/share_plan.h"
#include "server/device/cuda/shared/share_planner.h"

namespace warpline::device {

// A number that threads can raise but never lower. Thread-safe.
class Watermark {
 public:
  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  void Increment() { value_.fetch_add(1, std::memory_order_acq_rel); }
  void Raise(uint64_t to) {
    uint64_t now = value_.load(std::memory_order_relaxed);
    while (now < to && !value_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
    }
  }

 private:
  std::atomic<uint64_t> value_{0};
};

// An event that is recorded on one stream again and again. Every record comes after all earlier
// ones, so a wait for the event is long enough, whichever thread recorded it last. It may outlive
// its stream. Thread-safe.
class StreamMark {
 public:
  // Takes ownership of the event.
  StreamMark(const DriverApi* api, CUevent event) : api_(api), event_(event) {}
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark() { api_->p_cuEventDestroy(event_); }

  CUevent event() const { return event_; }
  // Makes the mark stand for the first `operations` of `stream`, which is the mark's stream.
  // Records the event unless an earlier record covers them. REQUIRES: so many operations have been
  // issued.
  CUresult Cover(CUstream stream, uint64_t operations);
  // Returns CUDA_SUCCESS when the operations that it stands for are complete, and
  // CUDA_ERROR_NOT_READY before.
  CUresult Query() const { return api_->p_cuEventQuery(event_); }

 private:
  const DriverApi* const api_;
  const CUevent event_;
  Watermark covered_;
};

// An operation's demand for multiprocessors.
struct StreamWork {
  uint64_t blocks = 0;  // The number of its kernels' blocks (SharePlanner::Session::Use).
  // All of its blocks must run at the same time, so it may need the whole device. If the session
  // may not have that, the driver refuses an operation that does not fit on the session's part.
  bool whole = false;
};

// A lock that many threads hold together or one thread holds alone. The exclusive side only tries,
// and never waits. Both sides hold it for the duration of calls of the driver. Thread-safe.
class ABSL_LOCKABLE UseLock {
 public:
  void LockShared() ABSL_SHARED_LOCK_FUNCTION();
  void UnlockShared() ABSL_UNLOCK_FUNCTION() { users_.fetch_sub(1, std::memory_order_release); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    int none = 0;
    return users_.compare_exchange_strong(none, kAlone, std::memory_order_acquire);
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() { users_.fetch_sub(kAlone, std::memory_order_release); }

 private:
  static constexpr int kAlone = 1 << 30;
  std::atomic<int> users_{0};
};

// Thread-safe. The last pointer destroys it; as in CUDA, submitted work still completes. The
// primary context must be current for all methods that call the driver.
//
// The driver's stream behind it changes when its session gets other multiprocessors. A new stream
// goes on after the old one's work, which stays where it was issued.
class SessionStream {
 public:
  enum class Kind { kLegacy, kBlocking, kNonBlocking };

  // Makes a stream for the session. `contexts` and `session` outlive it.
  static CUresult Make(const DriverApi* api, const GreenContexts* contexts,
                       SharePlanner::Session* session, Kind kind,
                       std::shared_ptr<SessionStream>* stream);
  SessionStream(const SessionStream&) = delete;
  SessionStream& operator=(const SessionStream&) = delete;
  ~SessionStream() { api_->p_cuStreamDestroy(native_); }

  Kind kind() const { return kind_; }
  const std::shared_ptr<StreamMark>& mark() const { return mark_; }

  // The driver's stream stays the same while a Use exists. A thread must not make a second Use of
  // the same stream.
  class ABSL_SCOPED_LOCKABLE Use {
   public:
    explicit Use(SessionStream* stream) ABSL_SHARED_LOCK_FUNCTION(stream->use_) : stream_(stream) {
      stream_->use_.LockShared();
    }
    ~Use() ABSL_UNLOCK_FUNCTION() { stream_->use_.UnlockShared(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    CUstream native() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return stream_->native_; }

   private:
    SessionStream* const stream_;
  };

  // Moves the stream to the session's current place, unless other threads use it. The thread that
  // issues an operation calls this first, without holding a Use. A stream that cannot move stays
  // usable where it is, and tries again when its session gets another place.
  void Follow(const StreamWork& work);
  // Returns the slots where the stream is.
  SlotRange place() const { return place_.load(std::memory_order_acquire); }
  // Returns the slots where its kernels run or are queued: its place, and the slots where it left
  // kernels when it moved. The value means nothing when the stream is quiet.
  SlotSet Slots() {
    const SlotRange at = place();  // First: a move that is seen here is seen in what it left.
    return SetOf(at) | Left();
  }
  // Returns the slots where its kernels run. Kernels that it left behind run first.
  SlotSet KernelSlots() {
    const SlotRange at = place();
    const SlotSet left = Left();
    return left != 0 ? left : SetOf(at);
  }
  // Makes the mark stand for the first `operations`, which have been issued.
  CUresult Cover(uint64_t operations) {
    const Use use(this);
    return mark_->Cover(use.native(), operations);
  }
  // Returns CUDA_SUCCESS when all issued work is complete, and CUDA_ERROR_NOT_READY before.
  CUresult Query() {
    const Use use(this);
    return api_->p_cuStreamQuery(use.native());
  }
  // Says that the operation that is being issued has a kernel.
  void AddKernel() { kernels_.Raise(issued.value() + 1); }
  // Returns whether all kernels so far are complete, or have failed.
  bool Quiet();
  // Sets an attribute, which is a hint to the driver. Later driver's streams behind it get it, too.
  CUresult SetAttribute(CUstreamAttrID id, const CUstreamAttrValue& value);

  // The number of operations issued to it; their driver calls have returned.
  Watermark issued;
  // For a blocking stream: the number of its operations for which the legacy stream waits, and the
  // number of the legacy stream's operations for which it waits.
  Watermark awaited;
  Watermark awaits;

 private:
  SessionStream(const DriverApi* api, const GreenContexts* contexts, SharePlanner::Session* session,
                Kind kind, CUstream native, SlotRange place, CUevent mark, CUevent kernel_mark,
                CUevent left_mark)
      : api_(api),
        contexts_(contexts),
        session_(session),
        kind_(kind),
        mark_(std::make_shared<StreamMark>(api, mark)),
        kernel_mark_(api, kernel_mark),
        left_mark_(api, left_mark),
        native_(native),
        place_(place) {}

  // Moves the stream. Returns whether it has moved.
  bool MoveTo(const SlotRange& to);
  CUresult Continue(CUstream next, SlotSet leaves) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_);
  // Returns the slots where kernels are under way that it left when it moved on.
  SlotSet Left();

  const DriverApi* const api_;
  const GreenContexts* const contexts_;
  SharePlanner::Session* const session_;
  const Kind kind_;
  const std::shared_ptr<StreamMark> mark_;  // Shared: waits for it go on when the stream is gone.
  StreamMark kernel_mark_;
  StreamMark left_mark_;  // Stands for all operations before it moved on.
  Watermark kernels_;     // The number of the last operation that had kernels.
  Watermark quiet_;       // The kernels up to this one are complete.
  SharePlanner::StreamUse used_;
  UseLock use_;
  CUstream native_ ABSL_GUARDED_BY(use_);
  std::atomic<SlotRange> place_;
  std::atomic<SlotRange> refused_{};  // The place to which it could not move.
  // The slots where kernels were under way when it moved on, until they end. Written under `mu_`.
  std::atomic<SlotSet> left_{0};
  Mutex mu_;  // Held across calls of the driver; no other lock is taken under it.
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_
