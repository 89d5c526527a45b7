// The part of Session that moves its memory to the host and back, and ends its worker meanwhile.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/gpu_server/session/session.h"

namespace warpline::server {

std::optional<Resident> Session::ResidentOn(const DeviceMemory& device) const {
  const SessionDevices& devices = holdings_.devices();
  if (!devices.Has(&device, nullptr)) return std::nullopt;
  Resident resident;
  resident.session = id_;
  resident.held_bytes = HeldBytesOn(device);
  if (state_ != State::kOpen) {
    // It counts against the lease's limit. The memory of one that is suspended stays; of others it
    // comes back by itself, or with the next worker.
    if (resident.held_bytes == 0) return std::nullopt;
    resident.moving = true;
    if (state_ == State::kSuspended) resident.staying_bytes = resident.held_bytes;
    return resident;
  }
  resident.bytes = ChunkBytesOn(device);
  resident.staying_bytes = StayingBytesOn(device);
  resident.why_not = WhyNotMovable();
  resident.moving = paging_.moving();
  resident.in_flight = worker_.in_flight();
  resident.waits = devices.waits_for_room();
  resident.progress = worker_.Retired();
  resident.priority = entitlement().slice.priority;
  resident.weight = std::max(1u, entitlement().slice.weight);
  resident.niceness = niceness();
  return resident;
}

std::optional<SessionProgress> Session::Progress() const {
  if (state_ != State::kOpen || paging_.moving()) return std::nullopt;
  return SessionProgress{.session = id_,
                         .done = worker_.Retired() + port_->traffic().memory_requests.value(),
                         .busy = worker_.in_flight() || holdings_.devices().has_requests()};
}

uint64_t Session::ChunkBytesOn(const DeviceMemory& device) const {
  return holdings_.devices().Sum(device, &SessionMemory::chunk_bytes);
}

uint64_t Session::StayingBytesOn(const DeviceMemory& device, SharesSeen* seen) const {
  const SessionDevices& devices = holdings_.devices();
  uint64_t bytes = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (&devices.device(i) == &device) bytes += devices.memory(i).StayingBytes(seen);
  }
  return bytes;
}

uint64_t Session::HeldBytesOn(const DeviceMemory& device) const {
  return holdings_.devices().Sum(device, &SessionMemory::held_bytes);
}

uint64_t Session::OwnBytesOn(const DeviceMemory& device) const {
  return holdings_.devices().Sum(device, &SessionMemory::own_bytes);
}

std::string Session::WhyNotMovable() const {
  const SessionDevices& devices = holdings_.devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    std::string why = devices.memory(i).WhyNotMovable();
    if (!why.empty()) return why;
  }
  return "";
}

uint64_t Session::AwayBytesOn(const DeviceMemory& device) const {
  return holdings_.devices().Sum(device, &SessionMemory::away_bytes);
}

uint64_t Session::TotalBytesOn(const DeviceMemory& device) const {
  return holdings_.devices().Sum(device, &SessionMemory::total_bytes);
}

std::map<int, uint64_t> Session::AwayBytes(bool with_request) const {
  const SessionDevices& devices = holdings_.devices();
  std::map<int, uint64_t> bytes;
  for (size_t i = 0; i < devices.size(); ++i) {
    const SessionMemory& memory = devices.memory(i);
    if (memory.away()) {
      bytes[devices.device(i).ordinal()] +=
          memory.away_bytes() + (with_request ? memory.requested_bytes() : 0);
    }
  }
  return bytes;
}

void Session::Do(SessionAction action, absl::Duration deadline,
                 std::function<void(absl::Status)> done) {
  const bool comes = action == SessionAction::kPageIn || action == SessionAction::kResume;
  if (away()) {
    return done(absl::FailedPreconditionError("the session is between two servers"));
  }
  if (state_ == State::kSuspended && !comes) return done(absl::OkStatus());
  if (state_ != State::kOpen && !(comes && Serving())) {
    return done(absl::FailedPreconditionError(Serving() ? "its worker is being replaced"
                                                        : "the session is not open"));
  }
  switch (action) {
    case SessionAction::kReplace:
      return replacement_.Begin(deadline, std::move(done));
    case SessionAction::kPageOut:
      return paging_.Out(deadline, std::move(done));
    case SessionAction::kPageIn:
    case SessionAction::kResume:
      return paging_.In(deadline, std::move(done));
    case SessionAction::kSuspend:
      return suspension_.Begin(deadline, std::move(done));
  }
}

void Session::EndWorker(const std::string& reason) {
  state_ = State::kSuspended;
  reason_ = reason;
  holdings_.Suspend();
  worker_.Kill();
  if (worker_.gone()) OnSuspended();
}

void Session::OnSuspended() {
  parts_.books->counters.suspensions.Add(1);
  audit_->Worker(audit::Event::kWorkerSuspended, reason_, worker_.pid());
  if (const LogPermit permit = lines_.Ask(kReplacedLine)) {
    permit.Info("suspended ", lines_.Keys(), " after_command=", worker_.Retired());
  }
  suspension_.OnWorkerGone();
  if (state_ == State::kSuspended && !handing_over()) StoreMemory();
}

void Session::StoreMemory() {
  holdings_.devices().Store([this](const absl::Status& status) {
    control_loop.AssertOnLoop();
    // The server has no files, or the client has gone on.
    if (absl::IsFailedPrecondition(status) || absl::IsCancelled(status)) return;
    if (const LogPermit permit = lines_.Ask(kReplacedLine)) {
      permit.Info(status.ok() ? "memory is in a file " : "memory stays in host memory ",
                  lines_.Keys(), " error=", status.ok() ? "" : status.ToString());
    }
  });
}

void Session::WakeUp(Paging::Done done) {
  if (const LogPermit permit = lines_.Ask(kReplacedLine)) permit.Info("resumes ", lines_.Keys());
  holdings_.devices().BringBack([this, done = std::move(done)](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (!status.ok()) return done(status);
    if (state_ != State::kSuspended) return;
    woken_ = done;
    BeginTakeover("the session was suspended", suspension_.TakeVariables());
    suspension_.Forget(absl::AbortedError("its client has gone on meanwhile"));
  });
}

void Session::ForgetMoves(const absl::Status& status) {
  woken_ = nullptr;
  StopSaving(status);
  paging_.Forget(status);
  suspension_.Forget(status);
  replacement_.Finish(status);
}

}  // namespace warpline::server
