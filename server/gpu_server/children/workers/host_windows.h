// The host windows of one guarded worker (host_window.h): the server makes their files, the process
// has them locked for its device, and each goes to one session at a time.
//
// A file goes to one session only. When that has ended its client may still have the file mapped,
// and could read and write what others copied through it: so the process replaces it by another
// one, and the window is nobody's until it has. That takes a moment at which no kernel runs.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOWS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "memory/quota.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

struct HostWindowsOptions {
  size_t count = 0;    // 0 for none.
  uint64_t bytes = 0;  // Of each, whole pages.
  // Of the host memory of all sessions, which is charged for what the process has locked. Null for
  // none, in tests.
  std::shared_ptr<Quota> quota = nullptr;
};

// Belongs to the control loop.
class HostWindows {
 public:
  // Sends a message that is about no session.
  using Send =
      std::function<absl::Status(warpline_internal::ToWorker message, absl::Span<const int> fds)>;

  HostWindows(const HostWindowsOptions& options, Send send)
      : options_(options), send_(std::move(send)) {}

  // The process has opened its device: it is given its windows before it hears of a session. Fewer
  // where there is no room for more. Returns how many.
  size_t Start() RUNS_ON(control_loop);
  // See HostWindowSource.
  std::optional<HostWindow> Take() RUNS_ON(control_loop);
  std::optional<HostWindow> Bring(const HostWindow& former) RUNS_ON(control_loop);
  // Nothing of the session that had the window is in the process any more. If there are more than
  // there should be, the window ends.
  void GiveBack(uint32_t number) RUNS_ON(control_loop);
  // The process's answer. INVALID_ARGUMENT when none was due; otherwise, why the window is no more.
  absl::Status OnDone(const warpline_internal::WindowDone& done) RUNS_ON(control_loop);
  // The process is gone.
  void Clear() RUNS_ON(control_loop) { windows_.clear(); }

  size_t free() const RUNS_ON(control_loop);

 private:
  enum class State {
    kFree,
    kTaken,
    kComing,  // The process gives it memory that nobody has had.
    kGoing,   // The process lets go of it.
  };
  struct Window {
    State state = State::kComing;
    uint64_t bytes = 0;
    std::shared_ptr<const UniqueFd> file;
    Reservation charge;
  };

  Reservation Charge(uint64_t bytes) const RUNS_ON(control_loop);
  // Has the process take a new file for the window. False where there is none.
  bool Renew(uint32_t number, Window* window) RUNS_ON(control_loop);

  const HostWindowsOptions options_;
  const Send send_;
  uint32_t last_number_ ABSL_GUARDED_BY(control_loop) = 0;
  std::map<uint32_t, Window> windows_ ABSL_GUARDED_BY(control_loop);  // By number.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOWS_H_
