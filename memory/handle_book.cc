#include "memory/handle_book.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline {

uint64_t HandleBook::BytesOf(uint64_t handle) const {
  const auto it = held_.find(handle);
  return it == held_.end() ? 0 : it->second.bytes();
}

bool HandleBook::Add(uint64_t handle, HeldMemory memory) {
  const uint64_t bytes = memory.bytes();
  const size_t chunks = memory.chunks.size();
  if (!held_.emplace(handle, std::move(memory)).second) return false;
  bytes_ += bytes;
  chunk_count_ += chunks;
  return true;
}

std::optional<HeldMemory> HandleBook::Remove(uint64_t handle) {
  const auto it = held_.find(handle);
  if (it == held_.end()) return std::nullopt;
  HeldMemory memory = std::move(it->second);
  held_.erase(it);
  bytes_ -= memory.bytes();
  chunk_count_ -= memory.chunks.size();
  return memory;
}

absl::StatusOr<std::vector<Chunk>> HandleBook::Share(uint64_t handle) {
  const auto it = held_.find(handle);
  if (it == held_.end()) return absl::InvalidArgumentError(absl::StrCat("no handle ", handle));
  std::vector<Chunk> shared;
  for (Chunk& chunk : it->second.chunks) {
    auto held = ShareChunk(&chunk, &it->second.reservation);
    if (!held.ok()) return held.status();
    shared.push_back(*std::move(held));
  }
  return shared;
}

void HandleBook::EndShares(const Quota* quota) {
  for (auto& [handle, memory] : held_) {
    for (Chunk& chunk : memory.chunks) EndShare(&chunk, quota, &memory.reservation);
  }
}

std::map<uint64_t, HeldMemory> HandleBook::Clear() {
  bytes_ = 0;
  chunk_count_ = 0;
  return std::exchange(held_, {});
}

std::map<uint64_t, HeldMemory> HandleBook::TakeIf(
    absl::FunctionRef<bool(uint64_t handle, const HeldMemory& memory)> goes) {
  std::map<uint64_t, HeldMemory> removed;
  for (auto it = held_.begin(); it != held_.end();) {
    const uint64_t handle = (it++)->first;
    if (goes(handle, held_.at(handle))) removed.emplace(handle, *Remove(handle));
  }
  return removed;
}

}  // namespace warpline
