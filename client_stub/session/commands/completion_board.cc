#include "client_stub/session/commands/completion_board.h"

#include <algorithm>

namespace warpline::stub {

bool CompletionBoard::Update(uint64_t stream, uint64_t seq, uint64_t all_seq) {
  {
    Shard& shard = shards_[Index(stream)];
    SpinMutexLock lock(&shard.mu);
    const auto it = shard.seqs.find(stream);
    if (it != shard.seqs.end()) {
      it->second = std::max(it->second, seq);
    } else if (seq > all_seq_.load(std::memory_order_relaxed)) {
      // A command that the whole session has passed needs no entry: the report may be the late last
      // one of a stream that is forgotten, and then the entry would never be dropped.
      if (streams_.fetch_add(1, std::memory_order_relaxed) >= kMaxStreams) return false;
      shard.seqs.emplace(stream, seq);
    }
  }
  if (all_seq > all_seq_.load(std::memory_order_relaxed)) {
    all_seq_.store(all_seq, std::memory_order_release);
    if (has_forgotten_.load(std::memory_order_acquire)) DropForgotten(all_seq);
  }
  return true;
}

bool CompletionBoard::Retired(uint64_t stream, uint64_t seq) const {
  if (seq <= all_seq()) return true;
  const Shard& shard = shards_[Index(stream)];
  SpinMutexLock lock(&shard.mu);
  const auto it = shard.seqs.find(stream);
  return it != shard.seqs.end() && seq <= it->second;
}

void CompletionBoard::Forget(uint64_t stream, uint64_t last_seq) {
  {
    SpinMutexLock lock(&forgotten_mu_);
    forgotten_.push_back({stream, last_seq});
    has_forgotten_.store(true, std::memory_order_release);
  }
  DropForgotten(all_seq());
}

void CompletionBoard::DropForgotten(uint64_t all_seq) {
  SpinMutexLock lock(&forgotten_mu_);
  std::erase_if(forgotten_, [&](const Forgotten& forgotten) {
    if (forgotten.last_seq > all_seq) return false;
    Shard& shard = shards_[Index(forgotten.stream)];
    SpinMutexLock shard_lock(&shard.mu);
    const auto it = shard.seqs.find(forgotten.stream);
    // A stream whose handle was used again keeps its entry.
    if (it != shard.seqs.end() && it->second <= forgotten.last_seq) {
      shard.seqs.erase(it);
      streams_.fetch_sub(1, std::memory_order_relaxed);
    }
    return true;
  });
  has_forgotten_.store(!forgotten_.empty(), std::memory_order_release);
}

}  // namespace warpline::stub
