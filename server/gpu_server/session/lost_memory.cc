#include "server/gpu_server/session/lost_memory.h"

#include <utility>

namespace warpline::server {

void LostMemory::Read(const warpline_internal::ReadBack& request) {
  if (reader_ == nullptr) {
    reader_ = std::make_shared<MemoryReader>(static_cast<MemoryReaderHost*>(this), recovery_);
  }
  reader_->Read(request, worker_->gone());
}

void LostMemory::OnFormerGone() {
  if (reader_ != nullptr) reader_->OnFormerGone();
}

void LostMemory::Stop() {
  if (reader_ != nullptr) reader_->Stop();
}

std::shared_ptr<Worker> LostMemory::TakeReader(WorkerEvents* events) {
  return worker_->TakeReader(events);
}

void LostMemory::MapForReader(std::function<void(CudaResult)> done) {
  holdings_->MapForReader(std::move(done));
}

void LostMemory::OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) {
  client_->AnswerRead(std::move(done), std::move(data));
}

void LostMemory::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  // A reader that says what it was not asked for has nothing to gain by it.
  (void)holdings_->OnMemoryDone(done);
}

}  // namespace warpline::server
