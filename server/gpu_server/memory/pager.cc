#include "server/gpu_server/memory/pager.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/log/log.h"
#include "proto/worker.pb.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;
// The most chunks and parts of one request to the process, which fits into a packet.
constexpr size_t kMostChunks = 64;
constexpr int kMostParts = 1000;
constexpr absl::Duration kLongestPause = absl::Seconds(1);

enum PagerLine : size_t { kStartedLine, kDiedLine, kPagerLineCount };
constexpr LogKind kPagerLines[kPagerLineCount] = {{"pagers_started", 10, absl::Minutes(1)},
                                                  {"pagers_died", 10, absl::Minutes(1)}};

// Goes through the host memory of used granules, in their order.
class Cursor {
 public:
  explicit Cursor(const std::vector<SwapSpace::Extent>& extents) : extents_(extents) {}

  // Takes the next `most` bytes, or as many as lie together.
  SwapSpace::Extent Take(uint64_t most) {
    const SwapSpace::Extent& extent = extents_[index_];
    const uint64_t bytes = std::min(most, extent.bytes - done_);
    const SwapSpace::Extent taken = {extent.block, extent.offset + done_, bytes};
    done_ += bytes;
    if (done_ == extent.bytes) {
      ++index_;
      done_ = 0;
    }
    return taken;
  }

 private:
  const std::vector<SwapSpace::Extent>& extents_;
  size_t index_ = 0;
  uint64_t done_ = 0;
};

// Collects moves into requests that fit into a packet each.
class Moves {
 public:
  using Send =
      std::function<absl::Status(const warpline_internal::MoveChunks&, absl::Span<const int>)>;

  Moves(bool out, Send send) : send_(std::move(send)) { move_.set_out(out); }

  absl::Status Add(const Chunk& chunk, uint64_t offset, const SwapSpace::Extent& extent) {
    if (&chunk != last_ || move_.parts_size() == kMostParts) {
      if (fds_.size() == kMostChunks || move_.parts_size() == kMostParts) {
        if (absl::Status sent = Flush(); !sent.ok()) return sent;
      }
      fds_.push_back(chunk.fd.get());
      move_.add_chunk_bytes(chunk.bytes);
      last_ = &chunk;
    }
    auto* const part = move_.add_parts();
    part->set_chunk(static_cast<uint32_t>(fds_.size() - 1));
    part->set_offset(offset);
    part->set_block(static_cast<uint32_t>(extent.block));
    part->set_block_offset(extent.offset);
    part->set_bytes(extent.bytes);
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (fds_.empty()) return absl::OkStatus();
    const absl::Status sent = send_(move_, fds_);
    fds_.clear();
    move_.clear_chunk_bytes();
    move_.clear_parts();
    last_ = nullptr;
    return sent;
  }

 private:
  const Send send_;
  warpline_internal::MoveChunks move_;
  std::vector<int> fds_;
  const Chunk* last_ = nullptr;  // The last one of the request.
};

}  // namespace

Pager::Pager(KeeperOptions options, SwapSpace* space, absl::Duration first_pause)
    : space_(space),
      ordinal_(options.ordinal),
      first_pause_(first_pause),
      process_(std::move(options)),
      log_(kPagerLines) {}

Pager::~Pager() {
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    process_.Stop();
  });
}

void Pager::Start() {
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    const absl::Status started = StartIfDown();
    if (started.ok()) return;
    if (const LogPermit permit = log_.Ask(kDiedLine)) {
      permit.Warning("no pager yet gpu=", ordinal_, " error=", started.ToString());
    }
  });
}

absl::Status Pager::StartIfDown() {
  if (process_.running()) return absl::OkStatus();
  const absl::Status started = process_.Start();
  locked_.assign(space_->blocks(), false);
  if (!started.ok()) {
    process_.Stop();
    return started;
  }
  pid_.store(process_.pid(), std::memory_order_relaxed);
  if (const LogPermit permit = log_.Ask(kStartedLine)) {
    permit.Info("pager started gpu=", ordinal_, " pid=", process_.pid());
  }
  LockLater();
  return absl::OkStatus();
}

absl::Status Pager::LockBlock(size_t block) {
  if (locked_[block]) return absl::OkStatus();
  const absl::Status locked = process_.AddHostBlock(
      static_cast<uint32_t>(block), space_->block_fd(block), space_->block_bytes(block));
  locked_[block] = locked.ok();
  return locked;
}

absl::Status Pager::LockBlocksOf(const AwayMemory& away) {
  for (const SwapSpace::Extent& extent : away.place.extents()) {
    if (const absl::Status locked = LockBlock(extent.block); !locked.ok()) return locked;
  }
  return absl::OkStatus();
}

// One block at a time, so that moves that were posted meanwhile come before the next one.
void Pager::LockNext() {
  if (!process_.running()) return;
  size_t block = 0;
  while (block < locked_.size() && locked_[block]) ++block;
  if (block == locked_.size()) return;
  if (const absl::Status locked = LockBlock(block); !locked.ok()) {
    if (const LogPermit permit = log_.Ask(kDiedLine)) {
      permit.Warning("host memory is not locked yet gpu=", ordinal_, " error=", locked.ToString());
    }
    return;
  }
  LockLater();
}

void Pager::LockLater() {
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    LockNext();
  });
}

absl::Status Pager::Try(const std::function<absl::Status()>& move) {
  absl::Status status;
  absl::Duration pause = first_pause_;
  for (int i = 0; i < kMostTries; ++i) {
    if (i > 1) {
      absl::SleepFor(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    status = StartIfDown();
    if (status.ok()) status = move();
    if (!absl::IsUnavailable(status)) return status;
    pid_.store(0, std::memory_order_relaxed);
    if (const LogPermit permit = log_.Ask(kDiedLine)) {
      permit.Warning("pager died gpu=", ordinal_, " by=", std::string(status.message()));
    }
  }
  return status;
}

absl::Status Pager::FindUsed(const std::vector<Chunk>& chunks, std::vector<bool>* used) {
  used->clear();
  for (size_t first = 0; first < chunks.size(); first += kMostChunks) {
    warpline_internal::FindUsed find;
    std::vector<int> fds;
    for (size_t i = first; i < std::min(chunks.size(), first + kMostChunks); ++i) {
      find.add_chunk_bytes(chunks[i].bytes);
      fds.push_back(chunks[i].fd.get());
    }
    const auto found = process_.FindUsed(find, fds);
    if (!found.ok()) return found.status();
    used->insert(used->end(), found->begin(), found->end());
  }
  return absl::OkStatus();
}

absl::Status Pager::Copy(bool out, const std::vector<Chunk>& chunks, const AwayMemory& away) {
  if (const absl::Status locked = LockBlocksOf(away); !locked.ok()) return locked;
  Moves moves(out, [this](const auto& move, absl::Span<const int> fds) {
    on_loop_.AssertOnLoop();
    return process_.Move(move, fds);
  });
  Cursor cursor(away.place.extents());
  uint64_t chunk_begins = 0;
  for (const Chunk& chunk : chunks) {
    for (uint64_t offset = 0; offset < chunk.bytes;) {
      const size_t granule = (chunk_begins + offset) / kGranule;
      if (!away.used[granule]) {
        offset += kGranule;
        continue;
      }
      uint64_t run = kGranule;
      while (offset + run < chunk.bytes && away.used[granule + run / kGranule]) run += kGranule;
      while (run > 0) {
        const SwapSpace::Extent extent = cursor.Take(run);
        if (absl::Status added = moves.Add(chunk, offset, extent); !added.ok()) return added;
        offset += extent.bytes;
        run -= extent.bytes;
      }
    }
    chunk_begins += chunk.bytes;
  }
  return moves.Flush();
}

void Pager::MoveOut(Chunks chunks, std::shared_ptr<AwayMemory> away, Moved moved) {
  loop_.Post([this, chunks = std::move(chunks), away = std::move(away), moved = std::move(moved)] {
    on_loop_.AssertOnLoop();
    moved(Try([&] {
      on_loop_.AssertOnLoop();
      absl::Status status = FindUsed(*chunks, &away->used);
      if (!status.ok()) return status;
      if (away->place.extents().empty()) {
        auto place = space_->Take(away->held_bytes());
        if (!place.ok()) return place.status();
        away->place = *std::move(place);
      }
      return Copy(/*out=*/true, *chunks, *away);
    }));
  });
}

void Pager::MoveIn(Chunks chunks, std::shared_ptr<const AwayMemory> away, Moved moved) {
  loop_.Post([this, chunks = std::move(chunks), away = std::move(away), moved = std::move(moved)] {
    on_loop_.AssertOnLoop();
    moved(Try([&] {
      on_loop_.AssertOnLoop();
      return Copy(/*out=*/false, *chunks, *away);
    }));
  });
}

}  // namespace warpline::server
