#include "memory/sealed_book.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "proto/frames.h"

namespace warpline {
namespace {

// In whole granules, and below the end of all addresses.
bool IsRange(uint64_t va, uint64_t bytes) {
  return bytes > 0 && va % kChunkGranularity == 0 && bytes % kChunkGranularity == 0 &&
         bytes <= ~uint64_t{0} - va;
}

}  // namespace

SealedBook::Ranges::iterator SealedBook::Holding(Ranges* ranges, uint64_t va) {
  const auto after = ranges->upper_bound(va);
  if (after == ranges->begin()) return ranges->end();
  const auto it = std::prev(after);
  return va < it->second ? it : ranges->end();
}

void SealedBook::Insert(Ranges* ranges, uint64_t begin, uint64_t end) {
  auto next = ranges->lower_bound(begin);
  if (next != ranges->end() && next->first == end) {
    end = next->second;
    next = ranges->erase(next);
  }
  if (next != ranges->begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    ranges->emplace(begin, end);
  }
}

void SealedBook::Cut(Ranges* ranges, Ranges::iterator it, uint64_t begin, uint64_t end) {
  const auto [first, last] = *it;
  ranges->erase(it);
  if (first < begin) ranges->emplace(first, begin);
  if (end < last) ranges->emplace(end, last);
}

void SealedBook::Add(uint64_t va, uint64_t bytes) { Insert(&held_, va, va + bytes); }

absl::Status SealedBook::Return(uint64_t va, uint64_t bytes) {
  const auto it = Holding(&held_, va);
  if (!IsRange(va, bytes) || it == held_.end() || va + bytes > it->second) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d bytes at %#x were returned that were not granted", bytes, va));
  }
  Cut(&held_, it, va, va + bytes);
  Insert(&returned_, va, va + bytes);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SealedBook::Take(uint64_t va, uint64_t min_bytes, uint64_t want_bytes) {
  if (!IsRange(va, want_bytes) || !IsRange(va, min_bytes) || min_bytes > want_bytes) {
    return absl::InvalidArgumentError("a request is in multiples of the granularity");
  }
  const auto next = held_.lower_bound(va);
  if (Holding(&held_, va) != held_.end() || (next != held_.end() && next->first - va < min_bytes)) {
    return absl::InvalidArgumentError("a part of the range is backed already");
  }
  const auto it = Holding(&returned_, va);
  const uint64_t left = it == returned_.end() ? 0 : it->second - va;
  if (left < min_bytes) return absl::ResourceExhaustedError("nothing is there");
  const uint64_t bytes = std::min(left, want_bytes);
  Cut(&returned_, it, va, va + bytes);
  Insert(&held_, va, va + bytes);
  return bytes;
}

}  // namespace warpline
