#include "memory/chunk_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

size_t ClassOf(uint64_t bytes) {
  const auto it = std::find(kChunkClasses.begin(), kChunkClasses.end(), bytes);
  return static_cast<size_t>(it - kChunkClasses.begin());
}

}  // namespace

uint64_t ChunkPool::TakeClean(size_t chunk_class, uint64_t want_bytes, std::vector<Chunk>* taken) {
  const uint64_t size = kChunkClasses[chunk_class];
  std::vector<Chunk>& clean = Clean(chunk_class);
  uint64_t got = 0;
  for (; want_bytes - got >= size && !clean.empty(); got += size) {
    taken->push_back(std::move(clean.back()));
    clean.pop_back();
  }
  pooled_bytes_ -= got;
  granted_bytes_ += got;
  return got;
}

absl::StatusOr<uint64_t> ChunkPool::TakeNew(size_t chunk_class, uint64_t want_bytes,
                                            std::vector<Chunk>* taken) {
  const uint64_t size = kChunkClasses[chunk_class];
  uint64_t got = 0;
  bool retried = false;
  while (want_bytes - got >= size) {
    if (!MakeRoomFor(size)) break;
    const size_t count = std::min<uint64_t>({(want_bytes - got) / size,
                                             (options_.capacity_bytes - held_bytes()) / size,
                                             options_.max_chunks - chunks_, ChunkMaker::kMaxBatch});
    auto made = maker_->Create(size, count);
    if (!made.ok()) return made.status();
    for (UniqueFd& fd : *made) taken->push_back(Chunk{size, std::move(fd)});
    const uint64_t bytes = made->size() * size;
    chunks_ += made->size();
    granted_bytes_ += bytes;
    got += bytes;
    if (made->size() < count) {
      // The device has less memory than our books say. Chunks that lie pooled in other sizes are
      // memory too.
      if (retried || pooled_bytes_ == 0) break;
      retried = true;
      GiveUpPooled((count - made->size()) * size);
    }
  }
  return got;
}

bool ChunkPool::MakeRoomFor(uint64_t bytes) {
  const auto fits = [&] {
    return held_bytes() + bytes <= options_.capacity_bytes && chunks_ < options_.max_chunks;
  };
  if (fits()) return true;
  // Chunks of other sizes are given up only when that makes enough room.
  if (held_bytes() - pooled_bytes_ + bytes > options_.capacity_bytes) return false;
  GiveUpPooled(bytes);
  return fits();
}

// Closing the descriptor of a chunk that is mapped nowhere frees its memory.
void ChunkPool::GiveUpPooled(uint64_t needed_bytes) {
  uint64_t freed = 0;
  for (std::vector<Chunk>& clean : clean_) {
    while (freed < needed_bytes && !clean.empty()) {
      freed += clean.back().bytes;
      clean.pop_back();
      --chunks_;
    }
  }
  pooled_bytes_ -= freed;
}

absl::StatusOr<std::vector<Chunk>> ChunkPool::Take(uint64_t min_bytes, uint64_t want_bytes,
                                                   uint64_t largest_bytes) {
  const uint64_t room = options_.capacity_bytes - std::min(options_.capacity_bytes, granted_bytes_);
  const uint64_t smallest = kChunkClasses.back();
  want_bytes = std::min(want_bytes, room - room % smallest);
  if (want_bytes < min_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has ", room, " bytes left, ", min_bytes, " were asked for"));
  }
  // When clean memory does not suffice, returned memory is scrubbed now rather than later.
  if (want_bytes > options_.capacity_bytes - std::min(options_.capacity_bytes, held_bytes())) {
    while (ScrubSome()) {
    }
  }
  std::vector<Chunk> taken;
  uint64_t got = 0;
  absl::Status error;
  for (size_t c = 0; c < kChunkClasses.size() && got < want_bytes; ++c) {
    if (kChunkClasses[c] > largest_bytes) continue;
    got += TakeClean(c, want_bytes - got, &taken);
    auto made = TakeNew(c, want_bytes - got, &taken);
    if (made.ok()) {
      got += *made;
    } else {
      error = made.status();
      got = TotalBytes(taken);
    }
  }
  if (got >= min_bytes && got > 0) return taken;
  ReturnClean(std::move(taken));
  if (!error.ok()) return error;
  return absl::ResourceExhaustedError(absl::StrCat("the device has no ", min_bytes, " bytes left"));
}

void ChunkPool::ReturnClean(std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) {
    granted_bytes_ -= chunk.bytes;
    pooled_bytes_ += chunk.bytes;
    Clean(ClassOf(chunk.bytes)).push_back(std::move(chunk));
  }
}

void ChunkPool::Return(std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) {
    granted_bytes_ -= chunk.bytes;
    dirty_bytes_ += chunk.bytes;
    dirty_.push_back(std::move(chunk));
  }
}

bool ChunkPool::ScrubSome() {
  if (dirty_.empty()) return false;
  const size_t count = std::min(dirty_.size(), ChunkMaker::kMaxBatch);
  std::vector<Chunk> batch(std::make_move_iterator(dirty_.end() - count),
                           std::make_move_iterator(dirty_.end()));
  dirty_.resize(dirty_.size() - count);
  const uint64_t bytes = TotalBytes(batch);
  dirty_bytes_ -= bytes;
  if (maker_->Scrub(batch).ok()) {
    granted_bytes_ += bytes;
    ReturnClean(std::move(batch));
  } else {
    chunks_ -= batch.size();
  }
  return !dirty_.empty();
}

ChunkPool::Stats ChunkPool::stats() const {
  return {granted_bytes_, pooled_bytes_, dirty_bytes_, chunks_};
}

}  // namespace warpline
