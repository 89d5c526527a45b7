#include "memory/chunk_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

// So many of each class are in stock at most. A session opens with one of 64 MiB and grows by the
// larger ones; frameworks' own pools grow by the smaller ones.
constexpr std::array<size_t, kChunkClasses.size()> kMostInStock = {2, 8, 16, 64};
// Each class is at most one part of the memory that nobody holds, and of the chunks that may exist.
constexpr uint64_t kStockPart = 32;
// What Restock() makes in one go, so that the next request does not wait long.
constexpr uint64_t kStockStep = 256ull << 20;

size_t ClassOf(uint64_t bytes) {
  const auto it = std::find(kChunkClasses.begin(), kChunkClasses.end(), bytes);
  return static_cast<size_t>(it - kChunkClasses.begin());
}

}  // namespace

uint64_t ChunkPool::TakeStock(size_t chunk_class, uint64_t want_bytes, std::vector<Chunk>* taken) {
  const uint64_t size = kChunkClasses[chunk_class];
  std::vector<Chunk>& stock = stock_[chunk_class];
  uint64_t got = 0;
  for (; want_bytes - got >= size && !stock.empty(); got += size) {
    taken->push_back(std::move(stock.back()));
    stock.pop_back();
  }
  stock_bytes_ -= got;
  granted_bytes_ += got;
  return got;
}

absl::StatusOr<uint64_t> ChunkPool::TakeNew(size_t chunk_class, uint64_t want_bytes,
                                            std::vector<Chunk>* taken, uint64_t* short_by) {
  const uint64_t size = kChunkClasses[chunk_class];
  uint64_t got = 0;
  bool retried = false;
  while (want_bytes - got >= size) {
    if (!MakeRoomFor(size)) break;
    const size_t count = std::min<uint64_t>(
        {(want_bytes - got) / size, (options_.capacity_bytes - held_bytes()) / size,
         options_.max_chunks - chunks(), ChunkMaker::kMaxBatch});
    auto made = maker_->Create(size, count);
    if (!made.ok()) return made.status();
    for (UniqueFd& fd : *made) taken->push_back(Chunk{size, std::move(fd)});
    const uint64_t bytes = made->size() * size;
    chunks_ += made->size();
    granted_bytes_ += bytes;
    got += bytes;
    if (made->size() < count) {
      // The device has less memory than our books say. What is in stock in other sizes is memory
      // too.
      *short_by = (count - made->size()) * size;
      if (retried || stock_bytes_ == 0) break;
      retried = true;
      GiveUpStock((count - made->size()) * size);
    }
  }
  return got;
}

bool ChunkPool::MakeRoomFor(uint64_t bytes) {
  const auto fits = [&] {
    return held_bytes() + bytes <= options_.capacity_bytes && chunks() < options_.max_chunks;
  };
  if (fits()) return true;
  // Chunks of other sizes are given up only when that makes enough room.
  if (held_bytes() - stock_bytes_ + bytes > options_.capacity_bytes) return false;
  GiveUpStock(bytes);
  return fits();
}

bool ChunkPool::Claim(uint64_t bytes) {
  if (bytes > options_.capacity_bytes || taken_bytes() > options_.capacity_bytes - bytes) {
    return false;
  }
  const uint64_t beyond = held_bytes() + bytes;
  if (beyond > options_.capacity_bytes) GiveUpStock(beyond - options_.capacity_bytes);
  claimed_bytes_ += bytes;
  return true;
}

// Closing the descriptor of a chunk that nobody else has had frees its memory.
void ChunkPool::GiveUpStock(uint64_t needed_bytes) {
  uint64_t freed = 0;
  for (std::vector<Chunk>& stock : stock_) {
    while (freed < needed_bytes && !stock.empty()) {
      freed += stock.back().bytes;
      stock.pop_back();
      --chunks_;
    }
  }
  stock_bytes_ -= freed;
}

absl::StatusOr<std::vector<Chunk>> ChunkPool::Take(uint64_t min_bytes, uint64_t want_bytes,
                                                   uint64_t largest_bytes) {
  const uint64_t room = options_.capacity_bytes - std::min(options_.capacity_bytes, taken_bytes());
  const uint64_t smallest = kChunkClasses.back();
  want_bytes = std::min(want_bytes, room - room % smallest);
  if (want_bytes < min_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has ", room, " bytes left, ", min_bytes, " were asked for"));
  }
  std::vector<Chunk> taken;
  uint64_t got = 0;
  uint64_t short_by = 0;
  absl::Status error;
  for (size_t c = 0; c < kChunkClasses.size() && got < want_bytes; ++c) {
    if (kChunkClasses[c] > largest_bytes) continue;
    got += TakeStock(c, want_bytes - got, &taken);
    auto made = TakeNew(c, want_bytes - got, &taken, &short_by);
    if (made.ok()) {
      got += *made;
    } else {
      error = made.status();
      got = TotalBytes(taken);
    }
  }
  if (got >= min_bytes && got > 0) return taken;
  ReturnUnused(std::move(taken));
  if (!error.ok()) return error;
  if (chunks() >= options_.max_chunks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has no ", min_bytes, " bytes left: all ", options_.max_chunks,
                     " chunks that the server may have of it are in use (LimitNOFILE)"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the device has no ", min_bytes, " bytes left: ", room, " were not promised to anybody, and ",
      short_by, " of them are in use outside of sessions"));
}

void ChunkPool::ReturnUnused(std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) {
    granted_bytes_ -= chunk.bytes;
    stock_bytes_ += chunk.bytes;
    chunk.piece = Reservation();
    stock_[ClassOf(chunk.bytes)].push_back(std::move(chunk));
  }
}

void ChunkPool::Return(std::vector<Chunk> chunks, std::vector<Reservation> bill,
                       Quarantine::Settled settled) {
  granted_bytes_ -= TotalBytes(chunks);
  chunks_ -= chunks.size();
  leaving_.Add(std::move(chunks), std::move(bill), std::move(settled));
}

absl::StatusOr<std::optional<uint64_t>> ChunkPool::KnownBytes() {
  auto free = maker_->FreeBytes();
  if (!free.ok() || !free->has_value()) return free;
  return **free + granted_bytes_ + stock_bytes_ + leaving_.open_bytes();
}

void ChunkPool::Settle(absl::Time now) {
  leaving_.Settle(now, [this] { return KnownBytes(); });
}

size_t ChunkPool::WantedInStock(size_t chunk_class) const {
  const uint64_t left = options_.capacity_bytes - std::min(options_.capacity_bytes, taken_bytes());
  return std::min<uint64_t>({kMostInStock[chunk_class],
                             left / kStockPart / kChunkClasses[chunk_class],
                             options_.max_chunks / kStockPart});
}

bool ChunkPool::Restock() {
  for (size_t c = 0; c < kChunkClasses.size(); ++c) {
    std::vector<Chunk>& stock = stock_[c];
    for (; stock.size() > WantedInStock(c); --chunks_) {
      stock_bytes_ -= kChunkClasses[c];
      stock.pop_back();
    }
  }
  for (size_t c = 0; c < kChunkClasses.size(); ++c) {
    const uint64_t size = kChunkClasses[c];
    const size_t wanted = WantedInStock(c);
    const size_t room = options_.max_chunks - std::min(options_.max_chunks, chunks());
    if (stock_[c].size() >= wanted || room == 0) continue;
    const size_t count = std::min<uint64_t>(
        {wanted - stock_[c].size(), std::max<uint64_t>(kStockStep / size, 1), room});
    auto made = maker_->Create(size, count);
    // The device has less memory than our books say.
    if (!made.ok() || made->size() < count) return false;
    for (UniqueFd& fd : *made) stock_[c].push_back(Chunk{size, std::move(fd)});
    chunks_ += count;
    stock_bytes_ += count * size;
    return true;
  }
  return false;
}

ChunkPool::Stats ChunkPool::stats() const {
  return {granted_bytes_,         stock_bytes_,   leaving_.leaving_bytes(),
          leaving_.stuck_bytes(), claimed_bytes_, chunks()};
}

}  // namespace warpline
