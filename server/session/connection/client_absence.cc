#include "server/session/connection/client_absence.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process_identity.h"

namespace warpline::server {
namespace {

constexpr char kProcessEnded[] = "client vanished: its process has ended";

bool SharesOurProcesses(const ClientProcess& client) {
  return client.pid != 0 && client.start_time != 0 && !client.boot_id.empty() &&
         client.boot_id == BootId() && client.pid_namespace == PidNamespace();
}

}  // namespace

void ClientAbsence::Begin(const ClientProcess& client, absl::Duration patience, GiveUp give_up) {
  End();
  give_up_ = std::move(give_up);
  timer_ = loop_->RunAfter(patience, [this, patience] {
    control_loop.AssertOnLoop();
    Finish(absl::StrCat("client vanished: not back within ", absl::FormatDuration(patience)));
  });
  if (SharesOurProcesses(client)) WatchProcess(client);
}

void ClientAbsence::WatchProcess(const ClientProcess& client) {
  // The descriptor first, so that what is then asked about the number holds for the descriptor.
  process_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, client.pid, 0)));
  const bool gone =
      process_.valid() ? ProcessStartTime(client.pid) != client.start_time : errno == ESRCH;
  if (!gone && !process_.valid()) return;
  if (!gone) {
    watch_ = loop_->Watch(process_.get(), [this] {
      control_loop.AssertOnLoop();
      Finish(kProcessEnded);
    });
    return;
  }
  // Not from within Begin().
  loop_->Remove(timer_);
  timer_ = loop_->RunAfter(absl::ZeroDuration(), [this] {
    control_loop.AssertOnLoop();
    Finish(kProcessEnded);
  });
}

void ClientAbsence::End() {
  loop_->Remove(timer_);
  loop_->Remove(watch_);
  timer_ = 0;
  watch_ = 0;
  process_.Reset(-1);
  give_up_ = nullptr;
}

void ClientAbsence::Finish(const std::string& reason) {
  const GiveUp give_up = std::move(give_up_);
  End();
  give_up(reason);
}

}  // namespace warpline::server
