// What the two ends of an in-process channel share: a bounded queue in each direction. Private to
// transport/inproc.
#ifndef WARPLINE_TRANSPORT_INPROC_INPROC_LINK_H_
#define WARPLINE_TRANSPORT_INPROC_INPROC_LINK_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/link_end.h"

namespace warpline::inproc_internal {

// Thread-safe. Ends are 0 and 1; each end puts into its own direction and takes from the other's.
// Nothing here blocks; the ends ring each other's bell.
class InprocLink {
 public:
  using Taken = LinkEnd::Taken;

  // Whether another frame may be put. A frame may overshoot, so that any size passes.
  bool HasRoom(int end) {
    MutexLock lock(&mu_);
    return directions_[end].bytes < kWindow && directions_[end].frames.size() < kMaxFrames;
  }

  void Put(int end, Frame frame) {
    if (frame.shared != nullptr) {
      frame.payload = *frame.shared;
      frame.shared = nullptr;
    }
    MutexLock lock(&mu_);
    directions_[end].bytes += frame.payload.size();
    directions_[end].frames.push_back(std::move(frame));
  }

  void PutEnd(int end, const absl::Status& status) {
    MutexLock lock(&mu_);
    directions_[end].ended = true;
    directions_[end].end_status = status;
  }

  Taken Take(int end, Frame* frame, absl::Status* end_status) {
    MutexLock lock(&mu_);
    Direction& from = directions_[1 - end];
    if (broken_) {
      *end_status = absl::UnavailableError("connection lost");
      return Taken::kBroken;
    }
    if (!from.frames.empty()) {
      *frame = std::move(from.frames.front());
      from.frames.pop_front();
      from.bytes -= frame->payload.size();
      return Taken::kFrame;
    }
    if (!from.ended) return Taken::kNothing;
    *end_status = from.end_status;
    return Taken::kEnd;
  }

  void Break() {
    MutexLock lock(&mu_);
    broken_ = true;
  }

 private:
  static constexpr size_t kWindow = 8 << 20;
  static constexpr size_t kMaxFrames = 1024;

  struct Direction {
    std::deque<Frame> frames;
    size_t bytes = 0;
    bool ended = false;
    absl::Status end_status;
  };

  Mutex mu_;
  Direction directions_[2] ABSL_GUARDED_BY(mu_);
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::inproc_internal

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_LINK_H_
