#include "server/gpu_server/session/bulk/bulk_port.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transfer_all.h"

namespace warpline::server {
namespace {

absl::Status Superseded() {
  return absl::AbortedError("another connection has the slot of this one");
}

template <typename Move>
absl::Status MoveAll(size_t bytes, const Move& move) {
  const Transfer moved = TransferAll(bytes, move);
  if (moved.bytes == bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("host memory cannot be reached: ", std::strerror(moved.error)));
}

}  // namespace

bool BulkPort::Attach(uint32_t slot, Channel* channel) {
  MutexLock moving(&slots_[slot].mu);
  MutexLock lock(&mu_);
  if (shut_ || held_) return false;
  Outlet& outlet = outlets_[slot];
  if (outlet.channel != nullptr) outlet.channel->Close(Superseded());
  outlet = {channel, {}};
  slots_[slot].holder = channel;
  slots_[slot].has_frames.store(false, std::memory_order_relaxed);
  return true;
}

void BulkPort::Detach(uint32_t slot, const Channel* channel) {
  MutexLock moving(&slots_[slot].mu);
  if (slots_[slot].holder == channel) slots_[slot].holder = nullptr;
  MutexLock lock(&mu_);
  if (outlets_[slot].channel == channel) outlets_[slot] = {};
}

std::shared_ptr<const UniqueFd> BulkPort::Find(uint64_t va, uint64_t bytes, off_t* offset) {
  MutexLock lock(&mu_);
  auto next = segments_.upper_bound(va);
  if (next == segments_.begin()) return nullptr;
  const auto& [begin, segment] = *std::prev(next);
  const uint64_t at = va - begin;
  if (at > segment.bytes || bytes > segment.bytes - at) return nullptr;
  *offset = static_cast<off_t>(at);
  return segment.fd;
}

absl::Status BulkPort::Put(uint32_t slot, const Channel* channel, uint64_t va,
                           std::string_view bytes) {
  Slot& mine = slots_[slot];
  MutexLock lock(&mine.mu);
  if (mine.holder != channel) return Superseded();
  off_t offset = 0;
  const auto fd = Find(va, bytes.size(), &offset);
  if (fd == nullptr) return absl::InvalidArgumentError("a put outside the session's host memory");
  return MoveAll(bytes.size(), [&](uint64_t done, uint64_t left) {
    return pwrite(fd->get(), bytes.data() + done, left, offset + static_cast<off_t>(done));
  });
}

absl::Status BulkPort::Get(uint32_t slot, const Channel* channel, uint64_t va, std::string* bytes) {
  Slot& mine = slots_[slot];
  MutexLock lock(&mine.mu);
  if (mine.holder != channel) return Superseded();
  off_t offset = 0;
  const auto fd = Find(va, bytes->size(), &offset);
  if (fd == nullptr) return absl::InvalidArgumentError("a get outside the session's host memory");
  return MoveAll(bytes->size(), [&](uint64_t done, uint64_t left) {
    return pread(fd->get(), bytes->data() + done, left, offset + static_cast<off_t>(done));
  });
}

bool BulkPort::Pop(uint32_t slot, const Channel* channel, Frame* frame) {
  std::atomic<bool>& has_frames = slots_[slot].has_frames;
  if (!has_frames.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  Outlet& outlet = outlets_[slot];
  if (outlet.channel != channel || outlet.frames.empty()) return false;
  *frame = std::move(outlet.frames.front());
  outlet.frames.pop_front();
  has_frames.store(!outlet.frames.empty(), std::memory_order_release);
  return true;
}

bool BulkPort::Add(uint64_t va, uint64_t bytes, int fd) {
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  MutexLock lock(&mu_);
  const bool room = segments_.size() < kMostSegments || segments_.contains(va);
  if (shut_ || !own.valid() || !room) return false;
  segments_[va] = {bytes, std::make_shared<const UniqueFd>(std::move(own))};
  return true;
}

std::shared_ptr<const UniqueFd> BulkPort::SegmentAt(uint64_t va, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto found = segments_.find(va);
  return found == segments_.end() || found->second.bytes != bytes ? nullptr : found->second.fd;
}

std::vector<BulkPort::Segment> BulkPort::Segments() {
  std::vector<Segment> segments;
  MutexLock lock(&mu_);
  for (const auto& [va, piece] : segments_) segments.push_back({va, piece.bytes, piece.fd});
  return segments;
}

void BulkPort::Hold(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    held_ = true;
    for (Outlet& outlet : outlets_) {
      if (outlet.channel != nullptr) outlet.channel->Close(status);
    }
  }
  for (Slot& slot : slots_) {
    MutexLock moving(&slot.mu);
    slot.holder = nullptr;
  }
}

void BulkPort::Release() {
  MutexLock lock(&mu_);
  held_ = false;
}

void BulkPort::Remove(uint64_t va) {
  MutexLock lock(&mu_);
  segments_.erase(va);
}

bool BulkPort::HasRoom() {
  MutexLock lock(&mu_);
  return segments_.size() < kMostSegments;
}

void BulkPort::Push(uint32_t slot, Frame frame) {
  MutexLock lock(&mu_);
  Outlet& outlet = outlets_[slot];
  if (outlet.channel == nullptr) return;
  outlet.frames.push_back(std::move(frame));
  slots_[slot].has_frames.store(true, std::memory_order_release);
  outlet.channel->Wake();
}

void BulkPort::Shut() {
  MutexLock lock(&mu_);
  shut_ = true;
  segments_.clear();
  for (const Outlet& outlet : outlets_) {
    if (outlet.channel == nullptr) continue;
    outlet.channel->Close(absl::PermissionDeniedError("the session is over"));
  }
}

}  // namespace warpline::server
