#include "client_stub/session/status/output_buffer.h"

namespace warpline::stub {

void OutputBuffer::Add(int descriptor, std::string_view text) {
  expected_.store(true, std::memory_order_relaxed);
  if (text.empty() || printer_ == nullptr) return;
  bool much;
  {
    MutexLock lock(&mu_);
    if (held_bytes_ > kMaxBehindWriterBytes) return;
    if (!held_.empty() && held_.back().first == descriptor) {
      held_.back().second.append(text);
    } else {
      held_.emplace_back(descriptor, text);
    }
    held_bytes_ += text.size();
    much = held_bytes_ > kMaxHeldBytes;
    pending_.store(true, std::memory_order_release);
  }
  // A thread that is writing takes this text too. The loop must not wait for it: the reader of the
  // application's output may be waiting for a call that only the loop can answer.
  if (!much || !write_mu_.TryLock()) return;
  WriteHeld(/*wait=*/false);
  write_mu_.Unlock();
}

void OutputBuffer::WriteAndWait() {
  MutexLock lock(&write_mu_);
  WriteHeld(/*wait=*/true);
}

void OutputBuffer::WriteHeld(bool wait) {
  while (true) {
    std::deque<std::pair<int, std::string>> texts;
    {
      MutexLock lock(&mu_);
      texts.swap(held_);
      held_bytes_ = 0;
      if (texts.empty()) {
        pending_.store(false, std::memory_order_relaxed);
        return;
      }
    }
    for (const auto& [descriptor, text] : texts) {
      // Text that cannot be written without waiting for the application is lost, as in a printf
      // FIFO that is never emptied.
      printer_(descriptor, text.data(), text.size(), wait ? 1 : 0);
    }
  }
}

}  // namespace warpline::stub
