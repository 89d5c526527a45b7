#include "server/worker/host/host_windows.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "common/steady_time.h"
#include "transport/loop_thread.h"

namespace warpline::worker {

absl::StatusOr<std::unique_ptr<HostWindows>> HostWindows::Start(device::SharedDevice* device,
                                                                HostWindowsOptions options) {
  auto windows = absl::WrapUnique(new HostWindows(device, options));
  auto thread = TryStartLoopThread("wl-windows", [at = windows.get()] { at->Run(); });
  if (!thread.ok()) return thread.status();
  windows->thread_ = *std::move(thread);
  return windows;
}

HostWindows::~HostWindows() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status HostWindows::Open(uint32_t number, int fd, uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    if (!windows_.try_emplace(number).second) {
      return absl::AlreadyExistsError("there is such a window");
    }
  }
  auto window = device_->OpenWindow(fd, bytes);
  MutexLock lock(&mu_);
  if (!window.ok()) {
    windows_.erase(number);
    return window.status();
  }
  windows_[number].window = *std::move(window);
  return absl::OkStatus();
}

void HostWindows::Replace(uint32_t number, UniqueFd fd, Done done) {
  {
    MutexLock lock(&mu_);
    const auto found = windows_.find(number);
    if (found != windows_.end() && found->second.window != nullptr && !found->second.replacing) {
      found->second.replacing = true;
      waiting_.push_back({number, std::move(fd), std::move(done)});
      changed_.NotifyAll();
      return;
    }
  }
  done(absl::NotFoundError("there is no such window"));
}

std::optional<HostWindows::Memory> HostWindows::Find(uint32_t number) {
  MutexLock lock(&mu_);
  const auto found = windows_.find(number);
  if (found == windows_.end() || found->second.window == nullptr || found->second.replacing) {
    return std::nullopt;
  }
  return Memory{found->second.window->host(), found->second.window->bytes()};
}

bool HostWindows::Await(absl::Duration pause, Replacement* next) {
  const absl::Time until = SteadyNow() + pause;
  MutexLock lock(&mu_);
  while (!stop_ && (waiting_.empty() || SteadyNow() < until)) {
    if (waiting_.empty()) {
      changed_.Wait(&mu_);
    } else {
      changed_.WaitWithTimeout(&mu_, until - SteadyNow());
    }
  }
  if (stop_) return false;
  *next = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void HostWindows::Run() {
  absl::Duration pause = absl::ZeroDuration();
  Replacement next;
  while (Await(pause, &next)) {
    device::HostWindow* window = nullptr;
    {
      MutexLock lock(&mu_);
      window = windows_.at(next.number).window.get();  // While it is being replaced it stays.
    }
    const absl::Status status = window->Replace(next.fd.get());
    if (absl::IsUnavailable(status)) {
      pause = std::min(std::max(2 * pause, options_.pause), options_.most_pause);
      MutexLock lock(&mu_);
      waiting_.push_front(std::move(next));
      continue;
    }
    pause = options_.pause;
    Finish(std::move(next), status);
  }
}

void HostWindows::Finish(Replacement replaced, const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    const auto found = windows_.find(replaced.number);
    found->second.replacing = false;
    if (found->second.window->host() == nullptr) windows_.erase(found);
  }
  replaced.done(status);
}

}  // namespace warpline::worker
