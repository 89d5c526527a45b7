// What other threads ask of a channel's loop: to close its stream, or to cut it. Every transport
// whose channels have a loop keeps one beside it.
#ifndef WARPLINE_TRANSPORT_CLOSE_REQUESTS_H_
#define WARPLINE_TRANSPORT_CLOSE_REQUESTS_H_

#include <atomic>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"

namespace warpline {

// Thread-safe. Whoever asks wakes the loop afterwards; the loop looks at any() on each of its
// turns, and once more after it has announced that it parks (park_state.h).
class CloseRequests {
 public:
  struct Taken {
    bool cancel = false;
    std::optional<absl::Status> close = std::nullopt;
  };

  // Asks for an end with `status`. The first reason stands, but an error overtakes an orderly
  // close.
  void Close(const absl::Status& status);
  // Asks for an end at once, without a word to the peer.
  void Cancel();

  bool any() const { return any_.load(std::memory_order_acquire); }
  // What was asked for since the last call.
  Taken Take();

 private:
  std::atomic<bool> any_{false};
  Mutex mu_;
  Taken asked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_CLOSE_REQUESTS_H_
