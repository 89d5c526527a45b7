#include "server/hostlink/handover/worker_rings.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline {
namespace {

// Beyond this many remembered frames, those that the worker has taken are forgotten at each write.
constexpr size_t kMostRemembered = 256;

}  // namespace

absl::StatusOr<std::shared_ptr<RingPair>> RingPair::Create(size_t capacity) {
  std::shared_ptr<RingPair> pair(new RingPair);
  for (RingDescriptors* ring : {&pair->to_worker_, &pair->from_worker_}) {
    auto created = CreateRing(capacity);
    if (!created.ok()) return created.status();
    *ring = std::move(*created);
  }
  auto to_worker = pair->to_worker_.Duplicate();
  if (!to_worker.ok()) return to_worker.status();
  auto writer = RingWriter::Attach(std::move(*to_worker));
  if (!writer.ok()) return writer.status();
  auto from_worker = pair->from_worker_.Duplicate();
  if (!from_worker.ok()) return from_worker.status();
  auto reader = RingReader::Attach(std::move(*from_worker));
  if (!reader.ok()) return reader.status();
  pair->writer_ = std::move(*writer);
  pair->reader_ = std::move(*reader);
  return pair;
}

void RingPair::ClearDoorbells() {
  reader_->ClearDoorbell();
  writer_->ClearDoorbell();
}

absl::StatusOr<std::shared_ptr<WorkerRings>> WorkerRings::Create(size_t capacity) {
  std::shared_ptr<WorkerRings> rings(new WorkerRings(capacity));
  const absl::Status made = rings->Renew();
  if (!made.ok()) return made;
  return rings;
}

absl::StatusOr<std::shared_ptr<WorkerRings>> WorkerRings::CreateAfter(size_t capacity,
                                                                      uint64_t seq) {
  auto rings = Create(capacity);
  if (!rings.ok()) return rings;
  MutexLock lock(&(*rings)->mu_);
  (*rings)->frozen_ = true;
  (*rings)->fed_seq_ = (*rings)->taken_seq_ = seq;
  return rings;
}

absl::Status WorkerRings::Renew() {
  auto pair = RingPair::Create(capacity_);
  if (!pair.ok()) return pair.status();
  MutexLock lock(&mu_);
  for (Fed& fed : fed_) {
    if (fed.kept.empty()) fed.kept = current_->writer_->PayloadAt(fed.begin, fed.bytes);
  }
  // A worker that took over and died before it said anything has left nothing to read.
  if (former_ == nullptr) former_ = std::move(current_);
  current_ = std::move(*pair);
  return absl::OkStatus();
}

absl::StatusOr<bool> WorkerRings::TryWrite(std::string_view payload) {
  CommandsHeader header;
  if (payload.size() < sizeof(header)) return absl::InvalidArgumentError("half a commands header");
  std::memcpy(&header, payload.data(), sizeof(header));
  const std::string_view parts[] = {payload};
  MutexLock lock(&mu_);
  if (frozen_) return false;
  while (true) {
    const uint64_t begin = current_->writer_->written_bytes();
    const absl::StatusOr<bool> written = current_->writer_->TryWrite(kCommands, parts);
    if (written.ok() && *written) {
      fed_seq_ = header.first_seq + header.count - 1;
      fed_.push_back({begin, payload.size(), fed_seq_, ""});
      if (fed_.size() >= kMostRemembered) {
        if (const auto taken = current_->writer_->TakenBytes(); taken.ok()) Prune(*taken);
      }
    }
    if (!written.ok() || *written || current_->writer_->PrepareToSleep(payload.size())) {
      return written;
    }
    // Room has appeared since. When the worker has garbled its position, the next attempt finds
    // that out.
  }
}

absl::StatusOr<bool> WorkerRings::TryRead(std::string* payload) {
  uint32_t kind = 0;
  MutexLock lock(&mu_);
  absl::StatusOr<bool> read = false;
  if (former_ != nullptr) {
    read = former_->reader_->TryRead(&kind, payload);
    if (read.ok() && !*read) former_.reset();
  }
  if (read.ok() && !*read) read = current_->reader_->TryRead(&kind, payload);
  if (read.ok() && *read && kind != kReplies) {
    return absl::InvalidArgumentError(absl::StrCat("frame of kind ", kind, " from the worker"));
  }
  return read;
}

bool WorkerRings::ArmDoorbell() {
  MutexLock lock(&mu_);
  return former_ == nullptr && current_->reader_->PrepareToSleep();
}

uint64_t WorkerRings::Freeze() {
  MutexLock lock(&mu_);
  frozen_ = true;
  return fed_seq_;
}

uint64_t WorkerRings::FedSeq() const {
  MutexLock lock(&mu_);
  return fed_seq_;
}

void WorkerRings::Prune(uint64_t taken_bytes) {
  while (!fed_.empty() && fed_.front().begin < taken_bytes) {
    taken_seq_ = fed_.front().last_seq;
    fed_.pop_front();
  }
}

std::optional<uint64_t> WorkerRings::TakenSeq() {
  MutexLock lock(&mu_);
  const auto taken = current_->writer_->TakenBytes();
  if (!taken.ok()) return std::nullopt;
  Prune(*taken);
  return taken_seq_;
}

void WorkerRings::Thaw() {
  MutexLock lock(&mu_);
  frozen_ = false;
  for (Fed& fed : fed_) {
    if (fed.kept.empty()) continue;  // It is in this worker's ring.
    const std::string_view parts[] = {fed.kept};
    fed.begin = current_->writer_->written_bytes();
    // They fitted into the former ring. Should they not fit here, the next frame's number shows the
    // worker the gap, and it ends the session.
    (void)current_->writer_->TryWrite(kCommands, parts);
    fed.kept.clear();
  }
}

std::shared_ptr<RingPair> WorkerRings::pair() const {
  MutexLock lock(&mu_);
  return current_;
}

std::vector<int> WorkerRings::child_fds() const {
  MutexLock lock(&mu_);
  const RingDescriptors& to = current_->to_worker_;
  const RingDescriptors& from = current_->from_worker_;
  return {to.memory.get(),   to.readable.get(),   to.writable.get(),
          from.memory.get(), from.readable.get(), from.writable.get()};
}

void WorkerRings::CloseChildFds() {
  MutexLock lock(&mu_);
  current_->to_worker_ = RingDescriptors();
  current_->from_worker_ = RingDescriptors();
}

}  // namespace warpline
