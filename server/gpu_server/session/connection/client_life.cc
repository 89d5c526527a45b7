#include "server/gpu_server/session/connection/client_life.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "common/process_identity.h"

namespace warpline::server {
namespace {

bool SharesOurProcesses(const ClientProcess& client) {
  return client.pid != 0 && client.start_time != 0 && !client.boot_id.empty() &&
         client.boot_id == BootId() && client.pid_namespace == PidNamespace();
}

}  // namespace

// Between exec() and an arena of the next program lie its loading and the start of its CUDA.
bool ExecutesAnotherProgram(const ClientProcess& client) {
  if (!SharesOurProcesses(client)) return false;
  const uint64_t bytes = AddressSpaceBytes(client.pid);
  return bytes != 0 && bytes < client.arena_bytes;
}

void ClientLife::Watch(const ClientProcess& client, std::function<void()> ended) {
  Stop();
  if (!SharesOurProcesses(client)) return;
  // The descriptor first, so that what is then asked about the number holds for the descriptor.
  process_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, client.pid, 0)));
  bool gone = !process_.valid() && errno == ESRCH;
  if (process_.valid()) {
    // Nothing is known of it where /proc hides the processes of others.
    const uint64_t started = ProcessStartTime(client.pid);
    gone = started != 0 && started != client.start_time;
  }
  if (!gone && !process_.valid()) return;
  ended_ = std::move(ended);
  const auto tell = [this] {
    control_loop.AssertOnLoop();
    const auto call = std::move(ended_);
    Stop();
    call();
  };
  if (gone) {
    timer_ = loop_->RunAfter(absl::ZeroDuration(), tell);
  } else {
    watch_ = loop_->Watch(process_.get(), tell);
  }
}

void ClientLife::Stop() {
  loop_->Remove(std::exchange(timer_, 0));
  loop_->Remove(std::exchange(watch_, 0));
  process_.Reset(-1);
  ended_ = nullptr;
}

}  // namespace warpline::server
