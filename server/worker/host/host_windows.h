// The host windows of a shared device in a worker's process, by the numbers that the server gave
// them: memory of the host that one session at a time copies through (device::HostWindow).
//
// The server makes their files, and says which session has which. When a session has ended, its
// client may still have the file mapped, so the window gets another file before another session
// gets the window. That stops kernels, so it is done when none runs, by a thread of its own: one
// window at a time and not often, since launches are held back for it.
#ifndef WARPLINE_SERVER_WORKER_HOST_HOST_WINDOWS_H_
#define WARPLINE_SERVER_WORKER_HOST_HOST_WINDOWS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/device/device.h"

namespace warpline::worker {

struct HostWindowsOptions {
  // Between two files that are replaced, and for how long it is waited after a moment at which
  // kernels ran: twice as long each time, up to the last value.
  absl::Duration pause = absl::Milliseconds(250);
  absl::Duration most_pause = absl::Seconds(4);
};

// Thread-safe. No lock is held during a call to the device.
class HostWindows {
 public:
  // What a session has of a window.
  struct Memory {
    void* host = nullptr;
    uint64_t bytes = 0;
  };
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // `device` is borrowed. RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<HostWindows>> Start(device::SharedDevice* device,
                                                            HostWindowsOptions options = {});
  HostWindows(const HostWindows&) = delete;
  HostWindows& operator=(const HostWindows&) = delete;
  ~HostWindows();

  // Makes the window of the file behind `fd` (borrowed), before it returns; see
  // SharedDevice::OpenWindow(). ALREADY_EXISTS for a number that is taken.
  absl::Status Open(uint32_t number, int fd, uint64_t bytes);
  // Has the window take the file behind `fd` in place of its own, or with an invalid one end. The
  // session that had it has ended. `done` is called on the thread, perhaps much later; with
  // NOT_FOUND when there is no such window, and then, and after every other error, there is none.
  void Replace(uint32_t number, UniqueFd fd, Done done);
  // Nothing when there is no such window, or its file is being replaced.
  std::optional<Memory> Find(uint32_t number);

 private:
  struct Window {
    std::unique_ptr<device::HostWindow> window;  // Null while Open() makes it.
    bool replacing = false;
  };
  struct Replacement {
    uint32_t number = 0;
    UniqueFd fd;
    Done done;
  };

  HostWindows(device::SharedDevice* device, HostWindowsOptions options)
      : device_(device), options_(options) {}
  void Run();
  // Waits for `pause`, unless it ends, and then for something to replace. Returns false at the end.
  bool Await(absl::Duration pause, Replacement* next);
  void Finish(Replacement replaced, const absl::Status& status);

  device::SharedDevice* const device_;
  const HostWindowsOptions options_;
  Mutex mu_;  // No other lock is taken under it, and no call made.
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint32_t, Window> windows_ ABSL_GUARDED_BY(mu_);  // By number.
  std::deque<Replacement> waiting_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_HOST_WINDOWS_H_
