// CUDA's order between a context's legacy stream and its blocking streams, made with events.
//
// The streams of contexts that share a device are non-blocking for the driver, so that no session
// waits for another. This class keeps CUDA's promise within one context. An operation on the legacy
// stream comes after all earlier ones on blocking streams, and an operation on a blocking stream
// after all earlier ones on the legacy stream. Non-blocking streams are in no order.
//
//   const LegacyOrder::Scope scope(&order, stream, {});
//   if (scope.error() != CUDA_SUCCESS) return scope.error();
//   return api->p_cuMemsetD8Async(dst, 0, bytes, scope.native());
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_LEGACY_ORDER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_LEGACY_ORDER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/session_stream.h"

namespace warpline::device {

// Thread-safe. If two operations must be in order, the first one's scope must end before the second
// one's begins; all others may be issued at the same time. No lock is held across a call of the
// driver, and waits are issued only where they are needed. While one stream is used alone, its
// scopes cost two atomic operations.
class LegacyOrder {
 public:
  // `legacy` is the context's legacy stream.
  LegacyOrder(const DriverApi* api, std::shared_ptr<SessionStream> legacy)
      : api_(api), legacy_(std::move(legacy)) {}
  LegacyOrder(const LegacyOrder&) = delete;
  LegacyOrder& operator=(const LegacyOrder&) = delete;

  // Encloses the call that issues one operation.
  class Scope {
   public:
    // Moves the stream to its session's place, and makes it wait for the operations that must come
    // first.
    Scope(LegacyOrder* order, SessionStream* stream, const StreamWork& work)
        : order_(order),
          stream_(stream),
          use_(Followed(stream, work)),
          error_(order->Begin(stream, use_.native())) {}
    ~Scope() { order_->End(stream_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The operation may be issued only on CUDA_SUCCESS.
    CUresult error() const { return error_; }
    // The driver's stream, to which the operation is issued.
    CUstream native() const { return use_.native(); }

   private:
    static SessionStream* Followed(SessionStream* stream, const StreamWork& work) {
      stream->Follow(work);
      return stream;
    }

    LegacyOrder* const order_;
    SessionStream* const stream_;
    const SessionStream::Use use_;
    const CUresult error_;
  };

  const std::shared_ptr<SessionStream>& legacy() const { return legacy_; }

  // Adds a stream.
  void Add(const std::shared_ptr<SessionStream>& stream);
  // Removes a stream that is about to be destroyed. The legacy stream still comes after its work.
  // REQUIRES: nothing is issued to it any more, and its mark covers all of its work.
  void Remove(const std::shared_ptr<SessionStream>& stream);
  // Says that the work of removed streams for which these marks stand is complete.
  void Forget(const std::vector<std::shared_ptr<StreamMark>>& marks);

 private:
  CUresult Begin(SessionStream* stream, CUstream native);
  void End(SessionStream* stream);
  // `legacy` and `native` are the driver's streams that wait.
  CUresult ComeAfterBlocking(CUstream legacy);
  CUresult ComeAfterLegacy(SessionStream* stream, CUstream native);

  const DriverApi* const api_;
  const std::shared_ptr<SessionStream> legacy_;
  // The number of operations of all blocking streams together, and the number of those that the
  // legacy stream waits for. They differ when there are new operations.
  Watermark blocking_issued_;
  Watermark blocking_awaited_;
  Mutex mu_;  // No other lock is taken under it, and no call made.
  std::set<std::shared_ptr<SessionStream>> blocking_ ABSL_GUARDED_BY(mu_);
  // Marks of destroyed streams for which the legacy stream does not wait yet.
  std::vector<std::shared_ptr<StreamMark>> departed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_LEGACY_ORDER_H_
