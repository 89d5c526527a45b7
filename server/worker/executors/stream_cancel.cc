#include "server/worker/executors/stream_cancel.h"

#include <algorithm>

namespace warpline::worker {

void StreamCancel::Begin(const CancelRequest& request) {
  dropped_ = std::max(dropped_, request.ticket);
  if (request.waiting_only) return;
  ended_ = std::max(ended_, request.ticket);
  under_way_ = true;
}

StreamCancel::Step StreamCancel::Next(const Work& work, absl::Time now) {
  if (!under_way()) return Step::kWait;
  if (work.retired >= ended_) {
    under_way_ = stopped_ = told_ = false;
    since_ = absl::InfiniteFuture();
    return Step::kDone;
  }
  // A stream that waits for a host function of the client has nothing on the device.
  if (work.issued == work.retired) {
    since_ = absl::InfiniteFuture();
    return Step::kWait;
  }
  // Kernels that are told to stop one after another each have their time.
  if (since_ == absl::InfiniteFuture() || work.retired != retired_) since_ = now;
  retired_ = work.retired;
  if (work.can_stop && !stopped_) {
    stopped_ = true;
    return Step::kStop;
  }
  if (work.is_held) {
    since_ = absl::InfiniteFuture();
    return Step::kWait;
  }
  const absl::Duration patience = stopped_ ? kOnceStopped : kByItself;
  if (now - since_ < patience || told_) return Step::kWait;
  told_ = true;
  return Step::kEndSession;
}

}  // namespace warpline::worker
