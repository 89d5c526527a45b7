#include "server/worker/memory/neighbour_pointers.h"

#include <algorithm>
#include <cstring>

#include "proto/frames.h"

namespace warpline::worker {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

}  // namespace

void NeighbourPointers::Count(absl::Span<const device::ParamLayout> layout,
                              std::string_view params) const {
  size_t left = kMostWords;
  uint64_t count = 0;
  for (const device::ParamLayout& param : layout) {
    if (param.size < kWord) continue;
    const size_t end = std::min(size_t{param.offset} + param.size, params.size());
    size_t at = (size_t{param.offset} + kWord - 1) / kWord * kWord;
    for (; at + kWord <= end && left > 0; at += kWord, --left) {
      uint64_t value;
      std::memcpy(&value, params.data() + at, sizeof(value));
      if (value - base_ < bytes_ || InHostArena(value) || !arenas_->Holds(value)) continue;
      ++count;
    }
  }
  if (count > 0) usage_->Add(Usage::kNeighbourPointers, count);
}

}  // namespace warpline::worker
