#include "server/gpu_server/children/workers/worker_process.h"

#include "absl/strings/str_cat.h"
#include "server/gpu_server/children/workers/worker_messages.h"

namespace warpline::server {

void WorkerProcess::Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
                         const SessionFiles& files) {
  if (!child_->prepared()) {
    if (!child_->alive()) return;
    pending_open_ = [this, open = std::move(open), rings = std::move(rings), files] {
      control_loop.AssertOnLoop();
      Open(open, rings, files);
    };
    return;
  }
  session_ = open.session();
  opened_due_ = true;
  warpline_internal::ToWorker message;
  *message.mutable_open() = std::move(open);
  const absl::Status sent = Send(message, OpeningFiles(rings.get(), files));
  if (!sent.ok()) Died(absl::IsUnavailable(sent) ? "" : sent.ToString());
  if (rings != nullptr) rings->CloseChildFds();
}

void WorkerProcess::StartIn(std::shared_ptr<MpsMembership> group, WorkerStart start) {
  group_ = std::move(group);
  // The membership calls nothing once this object has let go of it.
  group_->WhenReady([this, start = std::move(start)](const absl::Status& ready) {
    control_loop.AssertOnLoop();
    if (!child_->alive() || (!ready.ok() && group_->limited())) {
      return child_->Refuse(std::string(ready.message()));
    }
    WorkerStart begun = start;
    if (ready.ok()) begun.mps = group_->terms();
    child_->Start(std::move(begun));
  });
  group_->WhenOver([this](const std::string& why) {
    control_loop.AssertOnLoop();
    child_->Died(absl::StrCat("the MPS daemon of its group is gone: ", why));
  });
}

void WorkerProcess::OnGone() {
  group_ = nullptr;
  events_->OnWorkerGone();
}

absl::Status WorkerProcess::Send(warpline_internal::ToWorker message, absl::Span<const int> fds) {
  message.set_session(session_);
  return child_->Send(message, fds);
}

void WorkerProcess::OnPrepared(const warpline_internal::WorkerOpened& prepared) {
  if (prepared.error() != 0) pending_open_ = nullptr;
  events_->OnWorkerPrepared(prepared);
  if (pending_open_) std::exchange(pending_open_, nullptr)();
}

bool WorkerProcess::OnMessage(const warpline_internal::FromWorker& message,
                              std::vector<UniqueFd> fds) {
  if (message.session() != session_) return Died("bad message: of another session");
  if (message.has_opened() && !std::exchange(opened_due_, false)) {
    return Died("bad message: opened out of turn");
  }
  // The process hosts no other session. Its log says more than its own word could be trusted
  // for.
  if (message.has_ended()) {
    return Died(message.ended().overdue() ? "its kernels did not end" : "the protocol was broken");
  }
  const auto goes_on = HandOn(message, std::move(fds), events_);
  return goes_on.ok() ? *goes_on : Died(std::string(goes_on.status().message()));
}

bool WorkerProcess::Died(const std::string& why) {
  child_->Died(why);
  return false;
}

}  // namespace warpline::server
