#include "server/worker/lanes/print_relay.h"

namespace warpline::worker {

void PrintRelay::ExpectPrints() {
  if (!expected_.exchange(true)) sink_->Output(1, {});
}

void PrintRelay::Send() {
  if (source_ == nullptr || !expected_.load()) return;
  MutexLock lock(&mu_);
  for (uint32_t device = 0; device < devices_->size(); ++device) {
    devices_->context(device)->FlushOutput();
  }
  source_->Collect(
      [this](int descriptor, std::string_view text) { sink_->Output(descriptor, text); });
}

}  // namespace warpline::worker
