// How often the accepting thread looks for new sessions while others run.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_PACE_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_PACE_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace warpline::grpc_internal {

// Thread-safe. Quick for a while after something has come, and slow when nothing has: sessions that
// are idle should cost nothing, and those that open should not wait.
class AcceptPace {
 public:
  static constexpr absl::Duration kQuick = absl::Milliseconds(2);
  static constexpr absl::Duration kSlow = absl::Milliseconds(50);
  // How long it stays quick. The steps of a connection's and a stream's beginning follow each other
  // within it.
  static constexpr absl::Duration kQuickFor = absl::Seconds(2);

  // Something has come, or is about to. Ends a pause.
  void Quicken();
  // Waits until it is time to look again.
  void Pause();

 private:
  Mutex mu_;
  CondVar changed_;
  absl::Time quick_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_PACE_H_
