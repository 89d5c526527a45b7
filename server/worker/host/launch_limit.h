// Ends a session that has a process of its own when its work on the device takes longer than one
// launch of its lease may, or when it is told so.
//
// A kernel in a context of its own ends with its process alone. So the client is told first, with
// CUDA_ERROR_LAUNCH_TIMEOUT, and then the server, which ends the process. On a device that sessions
// share it is KernelWatch that looks after this.
#ifndef WARPLINE_SERVER_WORKER_HOST_LAUNCH_LIMIT_H_
#define WARPLINE_SERVER_WORKER_HOST_LAUNCH_LIMIT_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/worker/host/session_desk.h"

namespace warpline::worker {

// What it does of a session. The calls come from the limit's thread.
struct LimitedSession {
  // Since when work has been under way of which nothing becomes complete
  // (Completion::StalledSince).
  std::function<absl::Time()> stalled_since;
  // The client is to be told why it fails.
  std::function<void(const std::string& why)> fail;
  // The process is to end.
  std::function<void()> end;
};

// What is asked of the session that `desk` is for.
LimitedSession LimitedSessionOf(std::shared_ptr<SessionDesk> desk, std::function<void()> end);

// Thread-safe. Looks from a thread of its own, until the session is over the limit or this ends.
// With an infinite limit it looks at nothing and waits for EndNow().
class LaunchLimit {
 public:
  // `grace` is what the client has to hear why it fails. RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<LaunchLimit>> Start(LimitedSession session,
                                                            absl::Duration limit,
                                                            absl::Duration grace);
  LaunchLimit(const LaunchLimit&) = delete;
  LaunchLimit& operator=(const LaunchLimit&) = delete;
  ~LaunchLimit();

  // The session is to end, with why in words for its client. Does not wait.
  void EndNow(const std::string& why);

 private:
  LaunchLimit(LimitedSession session, absl::Duration limit, absl::Duration grace)
      : session_(std::move(session)), limit_(limit), grace_(grace) {}
  void Run();
  // Returns why the session is to end; empty when this is to end.
  std::string AwaitReason();
  // False when this is to end.
  bool SleepFor(absl::Duration time);

  const LimitedSession session_;
  const absl::Duration limit_;
  const absl::Duration grace_;
  Mutex mu_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::string why_ ABSL_GUARDED_BY(mu_);  // EndNow() sets it.
  std::thread thread_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_LAUNCH_LIMIT_H_
