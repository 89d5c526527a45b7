#include "server/gpu_server/children/workers/memory_reader.h"

#include <utility>

#include "common/sealed_memory.h"

namespace warpline::server {

void MemoryReader::Read(warpline_internal::ReadBack request, bool former_gone) {
  queue_.push_back(std::move(request));
  if (failed_ != CudaResult::kSuccess) return Fail(failed_);
  if (worker_ == nullptr && former_gone) Start();
  Next();
}

void MemoryReader::OnFormerGone() {
  if (worker_ == nullptr && !queue_.empty()) Start();
}

void MemoryReader::Start() {
  if (const auto recovery = std::exchange(recovery_, {}).lock()) {
    waits_ = true;
    return recovery->WhenOver([self = shared_from_this()] {
      control_loop.AssertOnLoop();
      self->waits_ = false;
      if (self->failed_ == CudaResult::kSuccess) self->Start();
    });
  }
  if (waits_) return;
  absl::StatusOr<UniqueFd> file = NewSealedMemory("warpline-readback", kMaxReadBack);
  if (!file.ok()) return Fail(CudaResult::kOutOfMemory);
  file_ = *std::move(file);
  worker_ = host_->TakeReader(this);
}

void MemoryReader::OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) {
  if (prepared.error() != 0) OnWorkerOpened(prepared);
}

void MemoryReader::OnWorkerOpened(const warpline_internal::WorkerOpened& opened) {
  if (ready_ || failed_ != CudaResult::kSuccess) return;
  if (opened.error() != 0) {
    if (const LogPermit permit = host_->AskForReaderLine()) {
      permit.Warning("no worker to read memory back: ", opened.message());
    }
    return Fail(static_cast<CudaResult>(opened.error()));
  }
  host_->MapForReader([self = shared_from_this()](CudaResult result) {
    control_loop.AssertOnLoop();
    if (result != CudaResult::kSuccess) return self->Fail(result);
    self->ready_ = true;
    self->Next();
  });
}

void MemoryReader::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  host_->OnMemoryDone(done);
}

void MemoryReader::Next() {
  if (!ready_ || busy_ || queue_.empty()) return;
  busy_ = true;
  warpline_internal::ToWorker message;
  message.mutable_read()->set_id(++read_id_);
  message.mutable_read()->set_va(queue_.front().va());
  message.mutable_read()->set_bytes(queue_.front().bytes());
  const int fd = file_.get();
  if (!worker_->Send(message, {&fd, 1}).ok()) Fail(CudaResult::kLaunchFailed);
}

void MemoryReader::OnReadDone(const warpline_internal::MemoryDone& done) {
  if (!busy_ || done.id() != read_id_) return;
  std::string data;
  if (done.error() == 0) {
    data.resize(queue_.front().bytes());
    size_t filled = 0;
    while (filled < data.size()) {
      const ssize_t n = pread(file_.get(), data.data() + filled, data.size() - filled,
                              static_cast<off_t>(filled));
      if (n <= 0) return Fail(CudaResult::kOperatingSystem);
      filled += static_cast<size_t>(n);
    }
  }
  Answer(static_cast<CudaResult>(done.error()), std::move(data));
  Next();
}

void MemoryReader::Answer(CudaResult error, std::string data) {
  busy_ = false;
  warpline_internal::ReadBackDone done;
  done.set_id(queue_.front().id());
  done.set_error(static_cast<int>(error));
  queue_.pop_front();
  host_->OnReadAnswered(std::move(done), std::move(data));
}

void MemoryReader::Fail(CudaResult error) {
  failed_ = error;
  ready_ = false;
  while (!queue_.empty()) Answer(error, "");
  Stop();
}

void MemoryReader::Stop() {
  if (failed_ == CudaResult::kSuccess) failed_ = CudaResult::kDeinitialized;
  ready_ = false;
  if (worker_ != nullptr && !worker_gone_) worker_->Kill();
}

void MemoryReader::OnWorkerDied(const std::string& why) {
  if (const LogPermit permit = host_->AskForReaderLine()) {
    permit.Warning("the worker that reads memory back died: ", why);
  }
  Fail(CudaResult::kLaunchFailed);
}

void MemoryReader::OnWorkerGone() {
  worker_gone_ = true;
  host_->OnReaderGone();
}

}  // namespace warpline::server
