// A stream of a context of a shared device. For the driver each of them is non-blocking; what
// CUDA's legacy order asks of it is in its kind.
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

// A number that several threads raise and none lowers. Thread-safe.
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
// ones, so whoever waits for the event waits for enough, whichever thread recorded it last. It may
// outlive its stream. Thread-safe.
class StreamMark {
 public:
  // Takes the event.
  StreamMark(const DriverApi* api, CUevent event) : api_(api), event_(event) {}
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark() { api_->p_cuEventDestroy(event_); }

  CUevent event() const { return event_; }
  // Has the event recorded on `stream`, which is the mark's, unless a former record comes after the
  // stream's first `operations` already. As many have been issued.
  CUresult Cover(CUstream stream, uint64_t operations);
  // CUDA_SUCCESS when all that it stands for is complete, CUDA_ERROR_NOT_READY before.
  CUresult Query() const { return api_->p_cuEventQuery(event_); }

 private:
  const DriverApi* const api_;
  const CUevent event_;
  Watermark covered_;
};

// What an operation asks of the multiprocessors.
struct StreamWork {
  uint64_t blocks = 0;  // Of its kernels (SharePlanner::Seat::Use).
  // All of its blocks run at the same time, so that it may fit on the whole device alone. Where the
  // session may not have that, what does not fit on its part is refused by the driver.
  bool whole = false;
};

// A lock that many hold at once, or one alone, who does not wait for them. Both hold it for as long
// as calls of the driver take. Thread-safe.
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

// Thread-safe. It is destroyed with the last pointer, which in the sense of CUDA lets work complete
// that was submitted. The primary context is current for all that calls the driver.
//
// The driver's stream behind it is another one when its session gets other multiprocessors: a new
// stream goes on where the old one ends, and what was issued before stays where it was.
class SessionStream {
 public:
  enum class Kind { kLegacy, kBlocking, kNonBlocking };

  // Makes a stream for the session's seat. `contexts` and `seat` outlive it.
  static CUresult Make(const DriverApi* api, const GreenContexts* contexts,
                       SharePlanner::Seat* seat, Kind kind, std::shared_ptr<SessionStream>* stream);
  SessionStream(const SessionStream&) = delete;
  SessionStream& operator=(const SessionStream&) = delete;
  ~SessionStream() { api_->p_cuStreamDestroy(native_); }

  Kind kind() const { return kind_; }
  const std::shared_ptr<StreamMark>& mark() const { return mark_; }

  // The driver's stream stays the same for as long as one of these exists. Whoever has one makes no
  // second one of the same stream.
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

  // Before an operation is issued, by the thread that issues it and holds no Use: the stream moves
  // to where its session has its place now, unless others use it. A stream that cannot move stays
  // usable where it is, and tries that again when its session gets another place.
  void Follow(const StreamWork& work);
  // Where it is.
  SlotRange place() const { return place_.load(std::memory_order_acquire); }
  // Where its kernels run or are queued: where it is, and where it left some when it moved. Of no
  // meaning when it is quiet.
  SlotSet Slots() {
    const SlotRange at = place();  // First: a move that is seen here is seen in what it left.
    return SetOf(at) | Left();
  }
  // Where they run: what it left comes first.
  SlotSet KernelSlots() {
    const SlotRange at = place();
    const SlotSet left = Left();
    return left != 0 ? left : SetOf(at);
  }
  // Has the mark stand for the first `operations`, which have been issued.
  CUresult Cover(uint64_t operations) {
    const Use use(this);
    return mark_->Cover(use.native(), operations);
  }
  // CUDA_SUCCESS when all that was issued is complete, CUDA_ERROR_NOT_READY before.
  CUresult Query() {
    const Use use(this);
    return api_->p_cuStreamQuery(use.native());
  }
  // A kernel is among the operations that have been issued.
  void AddKernel() { kernels_.Raise(issued.value() + 1); }
  // Whether all kernels so far are complete, or have failed.
  bool Quiet();
  // A hint to the driver.
  CUresult SetAttribute(CUstreamAttrID id, const CUstreamAttrValue& value);

  // How many operations have been issued to it: their driver calls have returned.
  Watermark issued;
  // For a blocking stream, how many of its operations the legacy stream waits for, and for how many
  // of the legacy stream's it waits.
  Watermark awaited;
  Watermark awaits;

 private:
  SessionStream(const DriverApi* api, const GreenContexts* contexts, SharePlanner::Seat* seat,
                Kind kind, CUstream native, SlotRange place, CUevent mark, CUevent kernel_mark,
                CUevent left_mark)
      : api_(api),
        contexts_(contexts),
        seat_(seat),
        kind_(kind),
        mark_(std::make_shared<StreamMark>(api, mark)),
        kernel_mark_(api, kernel_mark),
        left_mark_(api, left_mark),
        native_(native),
        place_(place) {}

  // Returns whether it is there now.
  bool MoveTo(const SlotRange& to);
  CUresult Continue(CUstream next, SlotSet leaves) ABSL_EXCLUSIVE_LOCKS_REQUIRED(use_);
  // Where kernels are under way that it left when it moved on.
  SlotSet Left();

  const DriverApi* const api_;
  const GreenContexts* const contexts_;
  SharePlanner::Seat* const seat_;
  const Kind kind_;
  const std::shared_ptr<StreamMark> mark_;  // Shared with those who wait when the stream is gone.
  StreamMark kernel_mark_;
  StreamMark left_mark_;  // Of all that was issued before it moved on.
  Watermark kernels_;     // The number of the last operation that had kernels.
  Watermark quiet_;       // The kernels up to this one are complete.
  SharePlanner::StreamUse used_;
  UseLock use_;
  CUstream native_ ABSL_GUARDED_BY(use_);
  std::atomic<SlotRange> place_;
  std::atomic<SlotRange> refused_{};  // Where it could not move.
  // Where kernels were under way when it moved on, until that is over. Written under `mu_`.
  std::atomic<SlotSet> left_{0};
  Mutex mu_;  // Calls of the driver are made under it, no other lock is taken.
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_
