#include "memory/arena_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/frames.h"

namespace warpline {
namespace {

bool Aligned(uint64_t value) { return value % kChunkGranularity == 0; }

}  // namespace

absl::Status ValidateArena(const ArenaRange& arena, uint64_t max_bytes) {
  if (arena.bytes < kMinArenaBytes || (arena.bytes & (arena.bytes - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arena of ", arena.bytes, " bytes: it must be a power of two and at least 4 GiB"));
  }
  if (arena.bytes > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena of ", arena.bytes, " bytes: this server allows ", max_bytes));
  }
  if (arena.base == 0 || arena.base % arena.bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena at %#x: its start must be a multiple of its size", arena.base));
  }
  if (arena.base > kAddressLimit - arena.bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena at %#x: it ends above the user address space", arena.base));
  }
  if (arena.base < kHostArenaBase + kHostArenaBytes && kHostArenaBase < arena.base + arena.bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena at %#x: memory that host and device share lies at %#x + %#x",
                        arena.base, kHostArenaBase, kHostArenaBytes));
  }
  return absl::OkStatus();
}

absl::Status ArenaBook::CheckRequest(uint64_t va, uint64_t min_bytes, uint64_t want_bytes) const {
  if (!Aligned(va) || !Aligned(min_bytes) || !Aligned(want_bytes) || min_bytes == 0 ||
      min_bytes > want_bytes) {
    return absl::InvalidArgumentError(
        "memory request: sizes and address must be multiples of 2 "
        "MiB, and 0 < min_bytes <= want_bytes");
  }
  if (want_bytes > arena_.bytes || va < arena_.base ||
      va - arena_.base > arena_.bytes - want_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory request: %#x + %#x is outside the arena", va, want_bytes));
  }
  auto next = grants_.lower_bound(va);
  const bool hits_next = next != grants_.end() && next->first - va < want_bytes;
  bool hits_previous = false;
  if (next != grants_.begin()) {
    const auto previous = std::prev(next);
    hits_previous = va - previous->first < previous->second.bytes;
  }
  if (hits_next || hits_previous) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory request: a part of %#x + %#x is backed already", va, want_bytes));
  }
  return absl::OkStatus();
}

absl::Status ArenaBook::Add(Grant grant) {
  const uint64_t bytes = grant.bytes();
  const absl::Status status = CheckRequest(grant.va, bytes, bytes);
  if (!status.ok()) return status;
  backed_bytes_ += bytes;
  chunk_count_ += grant.chunks.size();
  const uint64_t va = grant.va;
  grants_.emplace(va, Entry{bytes, std::move(grant)});
  return absl::OkStatus();
}

Grant ArenaBook::Take(std::map<uint64_t, Entry>::iterator it) {
  Grant grant = std::move(it->second.grant);
  backed_bytes_ -= it->second.bytes;
  chunk_count_ -= grant.chunks.size();
  grants_.erase(it);
  return grant;
}

absl::StatusOr<std::vector<Grant>> ArenaBook::Remove(uint64_t va, uint64_t bytes) {
  uint64_t covered = 0;
  for (auto it = grants_.find(va); it != grants_.end() && it->first == va + covered; ++it) {
    if (it->second.bytes > bytes - covered) break;
    covered += it->second.bytes;
    if (covered == bytes) break;
  }
  if (bytes == 0 || covered != bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory return: %#x + %#x is not made up of whole grants", va, bytes));
  }
  std::vector<Grant> removed;
  for (uint64_t at = va; at != va + bytes;) {
    const auto it = grants_.find(at);
    at += it->second.bytes;
    removed.push_back(Take(it));
  }
  return removed;
}

std::vector<Grant> ArenaBook::Clear() {
  std::vector<Grant> removed;
  removed.reserve(grants_.size());
  while (!grants_.empty()) removed.push_back(Take(grants_.begin()));
  return removed;
}

void ArenaBook::EndShares(const Quota* quota) {
  for (auto& [va, entry] : grants_) {
    for (Chunk& chunk : entry.grant.chunks) EndShare(&chunk, quota, &entry.grant.reservation);
  }
}

std::vector<Grant> ArenaBook::TakeIf(
    absl::FunctionRef<bool(uint64_t va, const Chunk& chunk)> goes) {
  std::vector<Grant> removed, left;
  while (!grants_.empty()) {
    Grant grant = Take(grants_.begin());
    std::vector<Grant>* to = nullptr;
    uint64_t va = grant.va;
    for (Chunk& chunk : grant.chunks) {
      std::vector<Grant>* const next = goes(va, chunk) ? &removed : &left;
      if (next != to) {
        to = next;
        to->push_back({va, {}, Reservation()});
      }
      Grant& run = to->back();
      // A shared chunk brings its own reservation.
      if (chunk.share == nullptr) run.reservation.Merge(grant.reservation.Split(chunk.bytes));
      va += chunk.bytes;
      run.chunks.push_back(std::move(chunk));
    }
    if (to != nullptr) to->back().reservation.Merge(std::move(grant.reservation));
  }
  for (Grant& grant : left) (void)Add(std::move(grant));  // It lay there before.
  return removed;
}

uint64_t ArenaBook::EndOfGrant(uint64_t va) const {
  auto it = grants_.upper_bound(va);
  if (it == grants_.begin()) return va;
  --it;
  return va - it->first < it->second.bytes ? it->first + it->second.bytes : va;
}

bool ArenaBook::Backs(uint64_t va, uint64_t bytes) const {
  if (bytes > arena_.bytes || va - arena_.base > arena_.bytes - bytes) return false;
  const uint64_t end = va + bytes;
  while (va < end) {
    const uint64_t next = EndOfGrant(va);
    if (next == va) return false;
    va = next;
  }
  return true;
}

absl::StatusOr<ArenaRange> ArenaBook::ShareableRange(uint64_t va, uint64_t bytes) const {
  if (bytes == 0 || !Backs(va, bytes)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("sharing of %#x + %#x, which is not backed", va, bytes));
  }
  uint64_t start = va, end = va;
  ForEachChunk([&](uint64_t at, const Chunk& chunk) {
    if (at >= va + bytes || at + chunk.bytes <= va) return;
    start = std::min(start, at);
    end = at + chunk.bytes;
  });
  return ArenaRange{start, end - start};
}

absl::StatusOr<ArenaBook::Shared> ArenaBook::Share(uint64_t va, uint64_t bytes) {
  const auto range = ShareableRange(va, bytes);
  if (!range.ok()) return range.status();
  Shared shared;
  shared.va = range->base;
  for (auto& [grant_va, entry] : grants_) {
    uint64_t at = grant_va;
    for (Chunk& chunk : entry.grant.chunks) {
      if (at >= range->base && at < range->base + range->bytes) {
        auto held = ShareChunk(&chunk, &entry.grant.reservation);
        if (!held.ok()) return held.status();
        shared.chunks.push_back(*std::move(held));
      }
      at += chunk.bytes;
    }
  }
  return shared;
}

}  // namespace warpline
