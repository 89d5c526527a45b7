#include "server/worker_rings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline {

absl::StatusOr<std::shared_ptr<WorkerRings>> WorkerRings::Create(size_t capacity) {
  std::shared_ptr<WorkerRings> rings(new WorkerRings);
  for (RingDescriptors* ring : {&rings->to_worker_, &rings->from_worker_}) {
    auto created = CreateRing(capacity);
    if (!created.ok()) return created.status();
    *ring = std::move(*created);
  }
  auto to_worker = rings->to_worker_.Duplicate();
  if (!to_worker.ok()) return to_worker.status();
  auto writer = RingWriter::Attach(std::move(*to_worker));
  if (!writer.ok()) return writer.status();
  auto from_worker = rings->from_worker_.Duplicate();
  if (!from_worker.ok()) return from_worker.status();
  auto reader = RingReader::Attach(std::move(*from_worker));
  if (!reader.ok()) return reader.status();
  rings->writer_ = std::move(*writer);
  rings->reader_ = std::move(*reader);
  return rings;
}

absl::StatusOr<bool> WorkerRings::TryWrite(std::string_view payload) {
  const std::string_view parts[] = {payload};
  while (true) {
    const absl::StatusOr<bool> written = writer_->TryWrite(kCommands, parts);
    if (!written.ok() || *written || writer_->PrepareToSleep(payload.size())) return written;
    // Room appeared since: a worker that garbled its position is told apart by the next attempt.
  }
}

absl::StatusOr<bool> WorkerRings::TryRead(std::string* payload) {
  uint32_t kind = 0;
  const absl::StatusOr<bool> read = reader_->TryRead(&kind, payload);
  if (read.ok() && *read && kind != kReplies) {
    return absl::InvalidArgumentError(absl::StrCat("frame of kind ", kind, " from the worker"));
  }
  return read;
}

std::vector<int> WorkerRings::child_fds() const {
  return {to_worker_.memory.get(),   to_worker_.readable.get(),   to_worker_.writable.get(),
          from_worker_.memory.get(), from_worker_.readable.get(), from_worker_.writable.get()};
}

void WorkerRings::CloseChildFds() {
  to_worker_ = RingDescriptors();
  from_worker_ = RingDescriptors();
}

void WorkerRings::ClearDoorbells() {
  reader_->ClearDoorbell();
  writer_->ClearDoorbell();
}

}  // namespace warpline
