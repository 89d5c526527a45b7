#include "server/gpu_server/session/session_holdings.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hostlink/handover/host_bytes.h"

namespace warpline::server {
namespace {

absl::Status BadMessage(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("bad message: ", what));
}

}  // namespace

SessionHoldings::SessionHoldings(const Parts& parts)
    : worker_(parts.worker),
      client_(parts.client),
      devices_({parts.control, parts.worker, parts.client, parts.reclaimer}, parts.taken),
      host_segments_(parts.host_memory, parts.worker),
      window_(parts.windows, parts.worker) {}

void SessionHoldings::Suspend() {
  devices_.Suspend();
  host_segments_.Suspend();
  window_.Suspend();
}

void SessionHoldings::MapAgain(std::function<void(CudaResult)> done) {
  // The worker answers in order: when it has the devices' memory it has the host's.
  host_segments_.MapAgain();
  window_.MapAgain();
  devices_.MapAgain(/*go_on=*/true, std::move(done));
}

void SessionHoldings::MapForReader(std::function<void(CudaResult)> done) {
  devices_.MapAgain(/*go_on=*/false, std::move(done));
}

void SessionHoldings::Abandon() {
  devices_.Abandon();
  host_segments_.Abandon();
  window_.Abandon();
}

KeptSegments SessionHoldings::End() {
  devices_.End();
  host_charges_.reset();
  own_host_memory_ = Reservation();
  window_.End();
  return host_segments_.End();
}

bool SessionHoldings::TakeHostMemory(std::shared_ptr<Quota> quota, uint64_t own_bytes) {
  own_host_memory_ = quota->Reserve(own_bytes, own_bytes, 1);
  host_charges_.emplace(std::move(quota));
  return own_host_memory_.bytes() == own_bytes;
}

CudaResult SessionHoldings::Charge(const warpline_internal::ChargeMemory& charge) {
  if (charge.device() != kHostMemoryNumber) {
    return devices_.empty() ? CudaResult::kIllegalState : devices_.Charge(charge);
  }
  return host_charges_.has_value() ? host_charges_->Charge(charge.bytes())
                                   : CudaResult::kIllegalState;
}

bool SessionHoldings::Uncharge(const warpline_internal::UnchargeMemory& uncharge) {
  if (uncharge.device() != kHostMemoryNumber) {
    return devices_.empty() || devices_.Uncharge(uncharge);
  }
  return !host_charges_.has_value() || host_charges_->Uncharge(uncharge.bytes());
}

absl::Status SessionHoldings::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  if (devices_.empty()) return absl::OkStatus();
  const absl::Status status = devices_.OnMemoryDone(done);
  return status.ok() ? status : BadMessage(status.message());
}

absl::Status SessionHoldings::OnHostDone(const warpline_internal::MemoryDone& done) {
  if (window_.Awaits(done.id())) return window_.OnDone(done);
  const absl::Status status = host_segments_.OnDone(done);
  return absl::IsInvalidArgument(status) ? BadMessage(status.message()) : status;
}

absl::Status SessionHoldings::OnCharge(const warpline_internal::ChargeMemory& charge) {
  warpline_internal::ToWorker message;
  auto* const answer = message.mutable_charged();
  answer->set_id(charge.id());
  const CudaResult result = Charge(charge);
  answer->set_error(static_cast<int>(result));
  if (result == CudaResult::kOutOfMemory) {
    client_->SayRefused(
        charge.device() == kHostMemoryNumber
            ? absl::StrCat("the host memory of its tenant has no room for ", charge.bytes(),
                           " bytes of module images and what is kept of them")
            : absl::StrCat("the quota has no room for ", charge.bytes(),
                           " bytes of arrays, module variables, stacks, heap, graphs or streams"));
  }
  const absl::Status sent = worker_->Send(message, {});
  if (sent.ok() || absl::IsUnavailable(sent)) return absl::OkStatus();
  return absl::InvalidArgumentError(sent.ToString());
}

absl::Status SessionHoldings::OnTakenOver(const warpline_internal::WorkerOpened& opened) {
  if (devices_.Recharge(opened.charged_bytes())) return absl::OkStatus();
  return absl::ResourceExhaustedError("its memory outside the arena is beyond the quota");
}

absl::Status SessionHoldings::OnUncharge(const warpline_internal::UnchargeMemory& uncharge) {
  if (Uncharge(uncharge)) return absl::OkStatus();
  return BadMessage("it gave back what it did not have");
}

void SessionHoldings::Describe(SessionSnapshot* snapshot) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    const SessionDeviceSnapshot device = {
        devices_.device(i).ordinal(), devices_.quota(i).limit_bytes(),
        devices_.quota(i).used_bytes(), devices_.memory(i).backed_bytes()};
    snapshot->devices.push_back(device);
    snapshot->memory.quota_bytes += device.quota_bytes;
    snapshot->memory.quota_used_bytes += device.quota_used_bytes;
    snapshot->memory.bytes += device.memory_bytes;
    snapshot->memory.kept_bytes += devices_.memory(i).kept_bytes();
    snapshot->memory.away_bytes += devices_.memory(i).away_bytes();
  }
  snapshot->memory.window_bytes = window_.bytes();
  snapshot->memory.refusal = client_->memory_refusal();
}

}  // namespace warpline::server
