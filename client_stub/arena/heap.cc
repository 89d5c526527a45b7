#include "client_stub/arena/heap.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proto/frames.h"

namespace warpline::stub {

Heap::Heap(uint64_t base, uint64_t bytes) {
  Block* block = pool_.New();
  block->base = base;
  block->bytes = bytes;
  MakeUnbacked(block);
}

// Shortens `block` to `bytes` and returns the rest as a block of the same state; null when there is
// none. `block` is on no list.
Block* Heap::CutFront(Block* block, uint64_t bytes) {
  if (bytes == block->bytes) return nullptr;
  Block* rest = pool_.New();
  rest->base = block->base + bytes;
  rest->bytes = block->bytes - bytes;
  rest->state = block->state;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->bytes = bytes;
  return rest;
}

void Heap::AbsorbNext(Block* block) {
  Block* next = block->next;
  block->bytes += next->bytes;
  block->next = next->next;
  if (block->next != nullptr) block->next->prev = block;
  pool_.Delete(next);
}

// Takes the free neighbours out of the bins and into `block`; returns the whole, on no list.
Block* Heap::AbsorbFreeNeighbours(Block* block) {
  if (Block* next = block->next; next != nullptr && next->state == BlockState::kFree) {
    bins_.Remove(next);
    AbsorbNext(block);
  }
  if (Block* prev = block->prev; prev != nullptr && prev->state == BlockState::kFree) {
    bins_.Remove(prev);
    AbsorbNext(prev);
    block = prev;
  }
  return block;
}

void Heap::MakeFree(Block* block) {
  block = AbsorbFreeNeighbours(block);
  block->state = BlockState::kFree;
  bins_.Insert(block);
}

void Heap::MakeUnbacked(Block* block) {
  if (Block* next = block->next; next != nullptr && next->state == BlockState::kUnbacked) {
    unbacked_.erase(next->base);
    AbsorbNext(block);
  }
  if (Block* prev = block->prev; prev != nullptr && prev->state == BlockState::kUnbacked) {
    AbsorbNext(prev);
    return;
  }
  block->state = BlockState::kUnbacked;
  unbacked_[block->base] = block;
}

Block* Heap::MakeLive(Block* block, uint64_t bytes) {
  block->state = BlockState::kLive;
  if (Block* rest = CutFront(block, bytes); rest != nullptr) MakeFree(rest);
  in_use_[block->base] = block;
  return block;
}

Block* Heap::Take(uint64_t bytes) {
  Block* block = bins_.TakeFit(bytes);
  return block == nullptr ? nullptr : MakeLive(block, bytes);
}

Block* Heap::TakeOwn(uint64_t bytes) {
  const auto found = own_.lower_bound(std::make_pair(bytes, static_cast<Block*>(nullptr)));
  if (found == own_.end() || found->first != bytes) return nullptr;
  Block* block = found->second;
  RemoveOwn(block);
  block->state = BlockState::kLive;
  in_use_[block->base] = block;
  return block;
}

void Heap::RemoveOwn(Block* block) {
  own_.erase(std::make_pair(block->bytes, block));
  own_bytes_ -= block->bytes;
}

void Heap::Put(Block* block) {
  in_use_.erase(block->base);
  if (!block->own) return MakeFree(block);
  block->state = BlockState::kFreeOwn;
  own_.emplace(block->bytes, block);
  own_bytes_ += block->bytes;
}

Block* Heap::Find(uint64_t address) const {
  auto it = in_use_.upper_bound(address);
  if (it == in_use_.begin()) return nullptr;
  Block* block = (--it)->second;
  return address - block->base < block->bytes ? block : nullptr;
}

Heap::Growth Heap::PlanGrowth(uint64_t bytes, uint64_t step, uint64_t limit) {
  Growth best;
  for (const auto& [base, space] : unbacked_) {
    Block* before = space->prev;
    if (before != nullptr && before->state != BlockState::kFree) before = nullptr;
    // The bytes that are still missing behind the free block.
    const uint64_t have = before == nullptr ? 0 : before->bytes;
    const uint64_t missing = have >= bytes ? kChunkGranularity : bytes - have;
    const uint64_t min = (missing + kChunkGranularity - 1) / kChunkGranularity * kChunkGranularity;
    if (min > limit || min > space->bytes) continue;
    if (best.space != nullptr && best.min_bytes <= min) continue;
    best = {space, before, min, std::min({std::max(min, step), limit, space->bytes})};
  }
  if (best.space == nullptr) return best;
  best.want_bytes -= best.want_bytes % kChunkGranularity;
  return SetAside(best);
}

Heap::Growth Heap::PlanOwn(uint64_t bytes, uint64_t limit) {
  Growth best;
  if (bytes > limit) return best;
  for (const auto& [base, space] : unbacked_) {
    if (space->bytes < bytes) continue;
    if (best.space != nullptr && best.space->bytes <= space->bytes) continue;
    best.space = space;
  }
  if (best.space == nullptr) return best;
  best.min_bytes = best.want_bytes = bytes;
  best.own = true;
  return SetAside(best);
}

Heap::Growth Heap::SetAside(const Growth& best) {
  if (best.before != nullptr) {
    bins_.Remove(best.before);
    best.before->state = BlockState::kRequested;
  }
  unbacked_.erase(best.space->base);
  Block* rest = CutFront(best.space, best.want_bytes);
  best.space->state = BlockState::kRequested;
  if (rest != nullptr) MakeUnbacked(rest);
  return best;
}

Block* Heap::CommitGrowth(const Growth& growth, uint64_t granted, uint64_t bytes) {
  if (Block* rest = CutFront(growth.space, granted); rest != nullptr) MakeUnbacked(rest);
  grants_[growth.space->base] = granted;
  granted_bytes_ += granted;
  Block* block = growth.space;
  if (growth.own) {
    block->own = true;
    own_granted_bytes_ += granted;
    block->state = BlockState::kLive;
    in_use_[block->base] = block;
    return block;
  }
  if (growth.before != nullptr) {
    block = growth.before;
    AbsorbNext(block);
  }
  return MakeLive(AbsorbFreeNeighbours(block), bytes);
}

void Heap::CancelGrowth(const Growth& growth) {
  if (growth.before != nullptr) MakeFree(growth.before);
  MakeUnbacked(growth.space);
}

Block* Heap::Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted) {
  Block* space = nullptr;
  uint64_t start = 0;
  if (const auto after = unbacked_.upper_bound(wanted);
      wanted % alignment == 0 && after != unbacked_.begin()) {
    Block* const block = std::prev(after)->second;
    const uint64_t front = wanted - block->base;
    if (front <= block->bytes && bytes <= block->bytes - front) {
      space = block;
      start = wanted;
    }
  }
  for (auto it = unbacked_.rbegin(); space == nullptr && it != unbacked_.rend(); ++it) {
    Block* const block = it->second;
    if (block->bytes < bytes) continue;
    start = (block->base + block->bytes - bytes) / alignment * alignment;
    if (start >= block->base) space = block;
  }
  if (space == nullptr) return nullptr;
  unbacked_.erase(space->base);
  Block* block = space;
  if (start > space->base) {
    block = CutFront(space, start - space->base);
    unbacked_[space->base] = space;
  }
  Block* const rest = CutFront(block, bytes);
  block->state = BlockState::kReserved;
  if (rest != nullptr) unbacked_[rest->base] = rest;
  in_use_[block->base] = block;
  return block;
}

void Heap::Unreserve(Block* block) {
  in_use_.erase(block->base);
  MakeUnbacked(block);
}

void Heap::AddGrant(const Grant& grant) {
  const auto it = unbacked_.find(grant.va);
  if (grant.bytes == 0 || it == unbacked_.end() || it->second->bytes < grant.bytes) return;
  Block* block = it->second;
  unbacked_.erase(it);
  Block* rest = CutFront(block, grant.bytes);
  grants_[block->base] = grant.bytes;
  granted_bytes_ += grant.bytes;
  MakeFree(block);
  if (rest != nullptr) MakeUnbacked(rest);
}

std::vector<Grant> Heap::GrantsWithin(const Block& block, uint64_t least_bytes) const {
  std::vector<Grant> grants;
  for (auto it = grants_.lower_bound(block.base);
       it != grants_.end() && it->first + it->second <= block.base + block.bytes; ++it) {
    if (it->second >= least_bytes) grants.push_back({it->first, it->second});
  }
  return grants;
}

uint64_t Heap::ReturnableBytes(uint64_t least_bytes) const {
  uint64_t bytes = 0;
  for (const auto& [size, block] : own_) bytes += size >= least_bytes ? size : 0;
  for (const Block* block : bins_.AtLeast(least_bytes)) {
    for (const Grant& grant : GrantsWithin(*block, least_bytes)) bytes += grant.bytes;
  }
  return bytes;
}

std::vector<Grant> Heap::TakeReturnable(uint64_t least_bytes, uint64_t keep_bytes) {
  std::vector<Grant> taken;
  std::vector<Block*> own;
  uint64_t left_free = free_bytes();
  for (const auto& [size, block] : own_) {
    if (size < least_bytes || left_free < keep_bytes + size) continue;
    left_free -= size;
    own.push_back(block);
  }
  for (Block* block : own) {
    taken.push_back({block->base, block->bytes});
    RemoveOwn(block);
    block->own = false;
    grants_.erase(block->base);
    granted_bytes_ -= block->bytes;
    own_granted_bytes_ -= block->bytes;
    MakeUnbacked(block);
  }
  for (Block* block : bins_.AtLeast(least_bytes)) {
    std::vector<Grant> grants = GrantsWithin(*block, least_bytes);
    uint64_t left = free_bytes();
    std::erase_if(grants, [&](const Grant& grant) {
      if (left < keep_bytes + grant.bytes) return true;
      left -= grant.bytes;
      return false;
    });
    if (grants.empty()) continue;
    CutGrants(block, grants);
    taken.insert(taken.end(), grants.begin(), grants.end());
  }
  return taken;
}

std::vector<Grant> Heap::TakeUnusedShared(uint64_t least_bytes) {
  std::vector<Grant> taken;
  for (Block* block : bins_.AtLeast(least_bytes)) {
    const std::vector<Grant> grants = GrantsWithin(*block, least_bytes);
    if (grants.empty()) continue;
    CutGrants(block, grants);
    taken.insert(taken.end(), grants.begin(), grants.end());
  }
  return taken;
}

// `grants` lie in the free block `block`, in address order.
void Heap::CutGrants(Block* block, const std::vector<Grant>& grants) {
  bins_.Remove(block);
  // This state is neither free nor unbacked, so that no part merges with the next one before its
  // turn.
  block->state = BlockState::kRequested;
  for (const Grant& grant : grants) {
    if (block->base < grant.va) {
      Block* front = block;
      block = CutFront(front, grant.va - front->base);
      MakeFree(front);
    }
    Block* rest = CutFront(block, grant.bytes);
    grants_.erase(grant.va);
    granted_bytes_ -= grant.bytes;
    MakeUnbacked(block);
    block = rest;
  }
  if (block != nullptr) MakeFree(block);
}

}  // namespace warpline::stub
