#include "server/gpu_server/session/session_lines.h"

#include "absl/strings/str_cat.h"

namespace warpline::server {

std::string SessionLines::Keys() const {
  return absl::StrCat("session=", id_, " gpu=", devices_.empty() ? "-1" : devices_,
                      " pid=", worker_pid_);
}

LogPermit SessionLines::Ask(ServerLine line) const {
  return log_->Ask(LogKey(tenant_, peer_), line);
}

void SessionLines::Begin() { first_ = BeginWorker(kSessionLine); }

LogPermit SessionLines::BeginWorker(ServerLine line) {
  LogPermit permit = Ask(line);
  quiet_ = !permit;
  return permit;
}

void SessionLines::SayOpened(const std::string& rest) {
  if (!first_) return;
  said_opened_ = true;
  first_.Info("opened ", Keys(), " ", rest);
}

LogPermit SessionLines::AskForLast() const {
  if (said_opened_) return LogPermit(/*left_out=*/0);
  if (first_) return first_;
  return Ask(devices_.empty() ? kRefusedLine : kSessionLine);
}

}  // namespace warpline::server
