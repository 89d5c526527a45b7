#include "server/gpu_server/moves/move_pipe.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpline::server {
namespace {

// A piece takes more memory than its bytes.
constexpr size_t kPieceCost = 128;

size_t CostOf(const std::string& piece) { return piece.size() + kPieceCost; }

}  // namespace

void MovePipe::Attach(Channel* channel) {
  MutexLock lock(&mu_);
  if (!ended_) channel_ = channel;
  WakeChannel();
}

void MovePipe::Detach(const absl::Status& status) {
  MutexLock lock(&mu_);
  channel_ = nullptr;
  ended_ = true;
  status_ =
      status.ok() ? absl::UnavailableError("the other server has ended the connection") : status;
  changed_.NotifyAll();
}

bool MovePipe::TryPut(std::string* piece) {
  MutexLock lock(&mu_);
  if (bytes_ >= kMostBytes) return false;
  bytes_ += CostOf(*piece);
  pieces_.push_back(std::move(*piece));
  changed_.NotifyAll();
  return true;
}

bool MovePipe::TryTake(std::string* piece) {
  MutexLock lock(&mu_);
  if (pieces_.empty()) return false;
  *piece = std::move(pieces_.front());
  pieces_.pop_front();
  bytes_ -= CostOf(*piece);
  changed_.NotifyAll();
  return true;
}

bool MovePipe::TakeLast(std::string* words) {
  MutexLock lock(&mu_);
  if (!last_.has_value()) return false;
  *words = *std::exchange(last_, std::nullopt);
  return true;
}

void MovePipe::OnFinished(std::string words) {
  MutexLock lock(&mu_);
  finished_ = std::move(words);
  changed_.NotifyAll();
}

absl::Status MovePipe::Put(std::string piece) {
  MutexLock lock(&mu_);
  while (!ended_ && bytes_ >= kMostBytes) changed_.Wait(&mu_);
  if (ended_) return status_;
  bytes_ += CostOf(piece);
  pieces_.push_back(std::move(piece));
  WakeChannel();
  return absl::OkStatus();
}

absl::Status MovePipe::Read(char* to, size_t bytes) {
  MutexLock lock(&mu_);
  while (bytes > 0) {
    while (!ended_ && pieces_.empty()) changed_.Wait(&mu_);
    // Bytes that came before the end are of no use without the rest.
    if (ended_) return status_;
    const std::string& piece = pieces_.front();
    const size_t taken = std::min(bytes, piece.size() - read_);
    std::memcpy(to, piece.data() + read_, taken);
    to += taken;
    bytes -= taken;
    read_ += taken;
    if (read_ < piece.size()) continue;
    const bool was_full = bytes_ >= kMostBytes;
    bytes_ -= CostOf(piece);
    read_ = 0;
    pieces_.pop_front();
    if (was_full) WakeChannel();
  }
  return absl::OkStatus();
}

void MovePipe::Finish(std::string words) {
  MutexLock lock(&mu_);
  last_ = std::move(words);
  WakeChannel();
}

absl::StatusOr<std::string> MovePipe::AwaitFinished() {
  MutexLock lock(&mu_);
  while (!ended_ && !finished_.has_value()) changed_.Wait(&mu_);
  if (finished_.has_value()) return *finished_;
  return status_;
}

void MovePipe::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Close(status);
}

void MovePipe::WakeChannel() {
  if (channel_ != nullptr) channel_->Wake();
}

}  // namespace warpline::server
