#include "server/gpu_server/session/lost_memory.h"

#include <utility>

namespace warpline::server {

void LostMemory::Read(const warpline_internal::ReadBack& request) {
  if (reader_ == nullptr) {
    reader_ = std::make_shared<MemoryReader>(static_cast<MemoryReaderHost*>(this), recovery_);
  }
  reader_->Read(request, parts_.worker->gone());
}

void LostMemory::OnFormerGone() {
  if (reader_ != nullptr) reader_->OnFormerGone();
}

void LostMemory::Stop() {
  if (reader_ == nullptr) return;
  reader_->Stop();
  parts_.stop_waiting();
}

std::shared_ptr<Worker> LostMemory::TakeReader(WorkerEvents* events) {
  return parts_.worker->TakeReader(events);
}

void LostMemory::MapForReader(std::function<void(CudaResult)> done) {
  parts_.holdings->MapForReader([this, done = std::move(done)](CudaResult result) {
    control_loop.AssertOnLoop();
    const bool later =
        result == CudaResult::kOutOfMemory || result == CudaResult::kDeviceUnavailable;
    if (!later || !parts_.holdings->devices().away()) return done(result);
    // It is away, and there is no room for it on the device, or the pager dies again and again.
    parts_.await_room([this, done] {
      control_loop.AssertOnLoop();
      MapForReader(done);
    });
  });
}

void LostMemory::OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) {
  parts_.client->AnswerRead(std::move(done), std::move(data));
}

void LostMemory::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  // A reader that says what it was not asked for has nothing to gain by it.
  (void)parts_.holdings->OnMemoryDone(done);
}

}  // namespace warpline::server
