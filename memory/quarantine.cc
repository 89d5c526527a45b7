#include "memory/quarantine.h"

#include <algorithm>
#include <utility>

namespace warpline {
namespace {

// What others take between two readings: the driver for itself, and a worker whose context opens
// meanwhile half a GiB. A return counts as free when all but this shows, and at least half of it.
constexpr uint64_t kMostNoise = 768ull << 20;

// Gives up all but `bytes` of the bill.
void ShrinkBill(uint64_t bytes, std::vector<Reservation>* bill) {
  for (Reservation& part : *bill) {
    part.ShrinkTo(bytes);
    bytes -= part.bytes();
  }
}

}  // namespace

void Quarantine::Add(std::vector<Chunk> chunks, std::vector<Reservation> bill, Settled settled) {
  ++added_;
  Return returned;
  returned.bytes = TotalBytes(chunks);
  returned.chunks = std::move(chunks);
  returned.bill = std::move(bill);
  returned.settled = std::move(settled);
  open_bytes_ += returned.bytes;
  open_chunks_ += returned.chunks.size();
  waiting_.push_back(std::move(returned));
}

void Quarantine::Close(Return* returned) {
  open_bytes_ -= returned->bytes;
  open_chunks_ -= returned->chunks.size();
  returned->chunks.clear();
}

bool Quarantine::TakeShown(uint64_t known_bytes, Return* returned) {
  const uint64_t missing = returned->known_before - std::min(returned->known_before, known_bytes);
  if (missing <= std::min(returned->bytes / 2, kMostNoise)) {
    returned->missing = missing;
    return true;
  }
  if (missing < returned->missing) {
    returned->missing = missing;
    ShrinkBill(missing, &returned->bill);
  }
  return false;
}

bool Quarantine::BeginNext(absl::Time now, const KnownBytes& known_bytes) {
  const auto known = known_bytes();
  if (!known.ok()) return false;
  Return next = std::move(waiting_.front());
  waiting_.pop_front();
  Close(&next);
  if (!known->has_value() || next.bytes == 0) {
    ++settled_;
    if (next.settled) next.settled(0);
    return true;
  }
  next.missing = next.bytes;
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
    const bool free = TakeShown(now_known, &*watched_);
    closed_bytes_ = watched_->missing;
    if (!free && now - watched_->closed < options_.patience) return;
    closed_bytes_ = 0;
    ++settled_;
    if (watched_->settled) std::exchange(watched_->settled, nullptr)(watched_->missing);
    // Where contexts or others have taken what they may, there is nothing to hold anybody to.
    if (!free && now_known < std::min(watched_->known_before, options_.capacity_bytes)) {
      stuck_bytes_ += watched_->missing;
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
  while (!stuck_.empty()) {
    Return& last = stuck_.back();
    stuck_bytes_ -= last.missing;
    if (!TakeShown(known_bytes, &last)) {
      stuck_bytes_ += last.missing;
      return;
    }
    stuck_.pop_back();
  }
}

}  // namespace warpline
