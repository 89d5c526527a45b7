// All streams of one context of a shared device. This makes streams, finds them by their ids, keeps
// them in CUDA's legacy order, and tells whether any of their work is under way.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAMS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/green_contexts.h"
#include "server/device/cuda/shared/legacy_order.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_stream.h"
#include "server/device/cuda/shared/share_planner.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. The context must be current on every thread that calls or destroys it.
class SessionStreams : public KernelSource {
 public:
  // Makes the legacy stream. The kernels of all streams run at the session's place. `contexts`,
  // `session` and `moments` outlive it. `on_overdue` may be null (SharedContextOptions).
  static absl::StatusOr<std::unique_ptr<SessionStreams>> Open(const DriverApi* api,
                                                              const GreenContexts* contexts,
                                                              SharePlanner::Session* session,
                                                              QuietMoments* moments,
                                                              std::function<void()> on_overdue);
  ~SessionStreams() override { moments_->Leave(this); }

  // `flags` is CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING.
  CUresult Create(uint32_t flags, StreamId* id);
  // Returns CUDA_ERROR_INVALID_HANDLE for the legacy stream, and for ids of no stream of this
  // context.
  CUresult Destroy(StreamId id);
  // REQUIRES: `id` is kLegacyStream, or from Create() and not destroyed.
  SessionStream* Of(StreamId id) const {
    return id == kLegacyStream ? order_.legacy().get()
                               : reinterpret_cast<SessionStream*>(static_cast<uint64_t>(id));
  }
  // Returns that stream, which stays for as long as the pointer; null for an id of no stream.
  std::shared_ptr<SessionStream> Keep(StreamId id);
  LegacyOrder* order() { return &order_; }
  QuietMoments* moments() const { return moments_; }
  bool Quiet() override;
  // Tells the session where it is busy.
  void Look() override { session_->SetBusy(Busy()); }
  // Returns the slots where kernels are under way; none when the context is quiet. All work of
  // destroyed streams counts as kernels.
  SlotSet Busy();
  void Overdue() override {
    if (on_overdue_) on_overdue_();
  }
  // Returns CUDA_SUCCESS when no stream has work under way, CUDA_ERROR_NOT_READY before, or the
  // error with which work ended. Tells the session when the context is idle.
  CUresult QueryIdle();

 private:
  SessionStreams(const DriverApi* api, const GreenContexts* contexts,
                 SharePlanner::Session* session, QuietMoments* moments,
                 std::function<void()> on_overdue, std::shared_ptr<SessionStream> legacy)
      : api_(api),
        contexts_(contexts),
        session_(session),
        moments_(moments),
        on_overdue_(std::move(on_overdue)),
        order_(api, std::move(legacy)) {
    moments_->Join(this);
  }

  std::vector<std::shared_ptr<SessionStream>> All();
  // A stream that was destroyed before its work was complete.
  struct Departed {
    std::shared_ptr<StreamMark> mark;  // The end of its work.
    SlotSet slots = 0;                 // The slots where that work is.
  };

  // Returns CUDA_ERROR_NOT_READY while work of destroyed streams is under way, or an error with
  // which it ended. Adds the slots of that work to `busy`, which may be null. Forgets complete
  // work.
  CUresult QueryDeparted(SlotSet* busy);

  const DriverApi* const api_;
  const GreenContexts* const contexts_;
  SharePlanner::Session* const session_;
  QuietMoments* const moments_;
  const std::function<void()> on_overdue_;
  LegacyOrder order_;
  Mutex mu_;  // No other lock is taken under it, and no call made.
  std::map<StreamId, std::shared_ptr<SessionStream>> streams_ ABSL_GUARDED_BY(mu_);
  std::vector<Departed> departed_ ABSL_GUARDED_BY(mu_);  // Until their ends have been seen.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAMS_H_
