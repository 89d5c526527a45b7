#include "server/worker/executors/print_relay.h"

namespace warpline::worker {

void PrintRelay::ExpectPrints() {
  if (!expected_.exchange(true)) sink_->Output(1, {});
}

void PrintRelay::Launching() {
  if (source_ == nullptr) return;
  MutexLock lock(&mu_);
  ++running_;
}

CudaResult PrintRelay::Send(uint64_t complete) {
  if (source_ == nullptr || !expected_.load()) return CudaResult::kSuccess;
  MutexLock lock(&mu_);
  running_ -= complete;
  for (uint32_t device = 0; device < devices_->size(); ++device) {
    devices_->context(device)->FlushOutput();
  }
  return source_->Collect(running_ == 0, [this](int descriptor, std::string_view text) {
    sink_->Output(descriptor, text);
  });
}

void PrintRelay::SendNotes() {
  if (source_ == nullptr) return;
  MutexLock lock(&mu_);
  source_->CollectNotes(
      [this](int descriptor, std::string_view text) { sink_->Output(descriptor, text); });
}

}  // namespace warpline::worker
