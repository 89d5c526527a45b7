#include "client_stub/arena/free_bins.h"

namespace warpline::stub {
namespace {

// How many blocks of the wanted class are looked at before a larger class is cut.
constexpr int kNearMisses = 8;

}  // namespace

void FreeBins::Insert(Block* block) {
  const int size_class = SizeClass(block->bytes);
  bins_[size_class].PushFront(block);
  occupied_[size_class / 64] |= 1ull << (size_class % 64);
  total_bytes_ += block->bytes;
}

void FreeBins::Remove(Block* block) {
  const int size_class = SizeClass(block->bytes);
  bins_[size_class].Remove(block);
  if (bins_[size_class].empty()) occupied_[size_class / 64] &= ~(1ull << (size_class % 64));
  total_bytes_ -= block->bytes;
}

Block* FreeBins::TakeFit(uint64_t bytes) {
  Block* block = FindFit(bytes);
  if (block != nullptr) Remove(block);
  return block;
}

Block* FreeBins::FindFit(uint64_t bytes) const {
  const int size_class = SizeClass(bytes);
  Block* block = bins_[size_class].front();
  for (int i = 0; i < kNearMisses && block != nullptr; ++i, block = block->list_next) {
    if (block->bytes >= bytes) return block;
  }
  if (const int larger = NextClass(size_class + 1); larger < kSizeClasses) {
    return bins_[larger].front();
  }
  // Goes through the rest of the class before the caller asks for more memory.
  while (block != nullptr && block->bytes < bytes) block = block->list_next;
  return block;
}

std::vector<Block*> FreeBins::AtLeast(uint64_t bytes) const {
  std::vector<Block*> blocks;
  for (int i = NextClass(SizeClass(bytes)); i < kSizeClasses; i = NextClass(i + 1)) {
    for (Block* block = bins_[i].front(); block != nullptr; block = block->list_next) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

int FreeBins::NextClass(int from) const {
  if (from >= kSizeClasses) return kSizeClasses;
  int word = from / 64;
  uint64_t bits = occupied_[word] & (~0ull << (from % 64));
  while (bits == 0) {
    if (++word == static_cast<int>(occupied_.size())) return kSizeClasses;
    bits = occupied_[word];
  }
  return word * 64 + std::countr_zero(bits);
}

}  // namespace warpline::stub
