#include "memory/quarantine.h"

#include <algorithm>
#include <utility>

namespace warpline {
namespace {

// What a driver takes for itself between two readings. A return counts as free when at least half
// of it shows.
constexpr uint64_t kMostNoise = 64ull << 20;

bool ShowsFree(uint64_t bytes, uint64_t known_before, uint64_t known_now) {
  return known_now + std::min(bytes / 2, kMostNoise) >= known_before;
}

}  // namespace

void Quarantine::Add(std::vector<Chunk> chunks, std::vector<Reservation> bill) {
  ++added_;
  Return returned;
  returned.bytes = TotalBytes(chunks);
  returned.chunks = std::move(chunks);
  returned.bill = std::move(bill);
  open_bytes_ += returned.bytes;
  open_chunks_ += returned.chunks.size();
  waiting_.push_back(std::move(returned));
}

void Quarantine::Close(Return* returned) {
  open_bytes_ -= returned->bytes;
  open_chunks_ -= returned->chunks.size();
  returned->chunks.clear();
}

bool Quarantine::BeginNext(absl::Time now, const KnownBytes& known_bytes) {
  const auto known = known_bytes();
  if (!known.ok()) return false;
  Return next = std::move(waiting_.front());
  waiting_.pop_front();
  Close(&next);
  if (!known->has_value() || next.bytes == 0) {
    ++settled_;
    return true;
  }
  next.known_before = **known;
  next.closed = now;
  closed_bytes_ += next.bytes;
  watched_ = std::move(next);
  return true;
}

void Quarantine::Settle(absl::Time now, const KnownBytes& known_bytes) {
  while (watched_.has_value() || !waiting_.empty()) {
    if (!watched_.has_value() && !BeginNext(now, known_bytes)) return;
    if (!watched_.has_value()) continue;
    const auto known = known_bytes();
    if (!known.ok()) return;
    const uint64_t now_known = known->value_or(watched_->known_before);
    const bool free = ShowsFree(watched_->bytes, watched_->known_before, now_known);
    if (!free && now - watched_->closed < options_.patience) return;
    closed_bytes_ -= watched_->bytes;
    ++settled_;
    // Where contexts or others have taken what they may, there is nothing to hold anybody to.
    if (!free && now_known < std::min(watched_->known_before, options_.capacity_bytes)) {
      stuck_bytes_ += watched_->bytes;
      stuck_.push_back(*std::move(watched_));
    }
    watched_.reset();
  }
  if (stuck_.empty()) return;
  const auto known = known_bytes();
  if (known.ok()) FreeStuck(known->value_or(~uint64_t{0}));
}

void Quarantine::FreeStuck(uint64_t known_bytes) {
  // What came later was closed with the earlier ones missing already.
  while (!stuck_.empty() &&
         ShowsFree(stuck_.back().bytes, stuck_.back().known_before, known_bytes)) {
    stuck_bytes_ -= stuck_.back().bytes;
    stuck_.pop_back();
  }
}

}  // namespace warpline
