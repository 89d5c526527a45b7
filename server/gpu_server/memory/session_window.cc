#include "server/gpu_server/memory/session_window.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "proto/frames.h"

namespace warpline::server {

void SessionWindow::Request(const warpline_internal::HostMemoryRequest& request,
                            HostSegments::Answer answer) {
  const uint64_t va = request.va();
  if (request.give_back() || request.outlives() || va % kHostPageBytes != 0 || !InHostArena(va)) {
    return answer({CudaResult::kInvalidValue, -1, {}});
  }
  if (window_.has_value()) return answer({CudaResult::kOutOfMemory, -1, {}});
  // Before a window is taken, which would have to get another file for it.
  if (tenant_quota_ != nullptr) {
    charge_ = tenant_quota_->Reserve(quota_bytes_, quota_bytes_, kHostPageBytes);
    if (charge_.bytes() < quota_bytes_) {
      charge_ = Reservation();
      return answer({CudaResult::kOutOfMemory, -1,
                     absl::StrCat("the lease's sessions may have ", tenant_quota_->limit_bytes(),
                                  " bytes of staging memory and hold ", tenant_quota_->used_bytes(),
                                  ": a host window has ", quota_bytes_)});
    }
  }
  if (!suspended_) window_ = source_->TakeWindow();
  if (!window_.has_value()) charge_ = Reservation();
  if (!window_.has_value()) {
    return answer({CudaResult::kOutOfMemory, -1,
                   "no host window is free for it, so that large copies go with its commands"});
  }
  if (window_->bytes > kHostArenaBytes - (va - kHostArenaBase)) {
    Empty();
    return answer({CudaResult::kInvalidValue, -1, {}});
  }
  va_ = va;
  answer_ = std::move(answer);
  SendShow(/*with_file=*/false);
}

void SessionWindow::SendShow(bool with_file) {
  due_ = ++last_id_;
  warpline_internal::ToWorker message;
  message.mutable_host()->set_id(due_);
  message.mutable_host()->set_va(va_);
  message.mutable_host()->set_bytes(window_->bytes);
  message.mutable_host()->set_window(window_->number);
  const int fd = window_->file->get();
  // What a dead worker did not get the next one is sent.
  (void)worker_->Send(message, {&fd, with_file ? size_t{1} : size_t{0}});
}

absl::Status SessionWindow::OnDone(const warpline_internal::MemoryDone& done) {
  due_ = 0;
  const auto result = static_cast<CudaResult>(done.error());
  const HostSegments::Answer answer = std::exchange(answer_, nullptr);
  if (result == CudaResult::kSuccess) {
    if (answer) answer({result, window_->file->get(), {}});
    return absl::OkStatus();
  }
  if (!answer) return absl::AbortedError("cannot lock the host window again");
  Empty();
  answer({CudaResult::kOutOfMemory, -1, "the worker could not use the host window"});
  return absl::OkStatus();
}

void SessionWindow::AnswerWith(CudaResult result) {
  suspended_ = true;
  due_ = 0;
  if (answer_) std::exchange(answer_, nullptr)({result, -1, {}});
}

void SessionWindow::MapAgain() {
  suspended_ = false;
  due_ = 0;
  if (!window_.has_value()) return;
  auto brought = source_->BringWindow(*window_);
  // The worker refuses it then, which is heard of as any failure.
  window_->number = brought.has_value() ? brought->number : ~uint32_t{0};
  SendShow(/*with_file=*/true);
}

void SessionWindow::End() {
  AnswerWith(CudaResult::kDeinitialized);
  Empty();
}

// The client may keep it mapped, and what it puts there then is its own: no other session ever has
// this file.
void SessionWindow::Empty() {
  if (window_.has_value()) EmptyMemory(window_->file->get(), window_->bytes);
  window_.reset();
  charge_ = Reservation();
}

}  // namespace warpline::server
