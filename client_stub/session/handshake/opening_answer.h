// The outcome of opening a session, for which the opening thread waits.
#ifndef WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_OPENING_ANSWER_H_
#define WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_OPENING_ANSWER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. The first answer holds.
class OpeningAnswer {
 public:
  void Give(const absl::Status& answer);
  // Notes that the connection has ended with `status`, which becomes the answer where there was
  // none. Returns whether the session had been opened.
  bool End(const absl::Status& status);

  // Waits for the answer. UNAVAILABLE when none comes in time.
  absl::Status Await(absl::Duration timeout);
  // Whether the connection was lost before the server had answered.
  bool lost() const;

 private:
  mutable Mutex mu_;
  CondVar given_;
  std::optional<absl::Status> answer_ ABSL_GUARDED_BY(mu_);
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_OPENING_ANSWER_H_
