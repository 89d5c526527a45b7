// A piece of the arena, and lists of pieces.
#ifndef WARPLINE_CLIENT_STUB_ARENA_BLOCK_H_
#define WARPLINE_CLIENT_STUB_ARENA_BLOCK_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace warpline::stub {

// The addresses and sizes of blocks are multiples of this.
inline constexpr uint64_t kAllocationUnit = 512;

enum class BlockState : uint8_t {
  kUnbacked,    // No memory is behind it.
  kRequested,   // Part of a growth that is under way.
  kFree,        // Backed and in the bins.
  kFreeOwn,     // Free, and a grant of its own.
  kLive,        // It is an allocation.
  kRetiring,    // Freed; work that may use it has not retired.
  kReserved,    // The application reserved the addresses and maps memory there itself.
  kStreamFree,  // Freed in the order of a stream, for which it may be used again.
};

// The arena is a chain of blocks in address order. Which list a block is on follows from its state.
struct Block {
  uint64_t base = 0;
  uint64_t bytes = 0;
  Block* prev = nullptr;  // In address order.
  Block* next = nullptr;
  Block* list_prev = nullptr;  // A bin, the retiring blocks, or a stream's blocks by age.
  Block* list_next = nullptr;
  Block* bin_prev = nullptr;  // A stream's bin.
  Block* bin_next = nullptr;
  uint64_t asked_bytes = 0;  // kLive
  uint64_t seq = 0;          // kRetiring, kStreamFree: the session's latest command at the free.
  uint64_t token = 0;        // kRetiring: the fence that covers it.
  BlockState state = BlockState::kUnbacked;
  bool stream_ordered = false;  // kLive
  bool own = false;             // The block is one grant, which nothing else is cut from.
};

// A list through two members of Block.
template <Block* Block::*kPrev, Block* Block::*kNext>
class BlockListOf {
 public:
  Block* front() const { return front_; }
  bool empty() const { return front_ == nullptr; }

  void PushFront(Block* block) {
    block->*kPrev = nullptr;
    block->*kNext = front_;
    (front_ != nullptr ? front_->*kPrev : back_) = block;
    front_ = block;
  }

  void PushBack(Block* block) {
    block->*kNext = nullptr;
    block->*kPrev = back_;
    (back_ != nullptr ? back_->*kNext : front_) = block;
    back_ = block;
  }

  void Remove(Block* block) {
    (block->*kPrev != nullptr ? block->*kPrev->*kNext : front_) = block->*kNext;
    (block->*kNext != nullptr ? block->*kNext->*kPrev : back_) = block->*kPrev;
  }

 private:
  Block* front_ = nullptr;
  Block* back_ = nullptr;
};

using BlockList = BlockListOf<&Block::list_prev, &Block::list_next>;
using BinList = BlockListOf<&Block::bin_prev, &Block::bin_next>;

// Size classes: sixteen to a power of two, exact below 16 KiB. A block of a higher class is larger
// than every block of a lower one. The last class takes everything from 15.5 TiB up.
inline constexpr int kSizeClasses = 512;

inline int SizeClass(uint64_t bytes) {
  const uint64_t units = bytes / kAllocationUnit;
  if (units < 16) return static_cast<int>(units);
  const int power = std::bit_width(units) - 1;
  const int size_class = (power - 3) * 16 + static_cast<int>((units >> (power - 4)) & 15);
  return std::min(size_class, kSizeClasses - 1);
}

// Hands out Block objects and reuses them. Thread-compatible.
class BlockPool {
 public:
  Block* New() {
    if (unused_.empty()) Refill();
    Block* block = unused_.back();
    unused_.pop_back();
    *block = Block();
    return block;
  }
  void Delete(Block* block) { unused_.push_back(block); }

 private:
  static constexpr int kSlab = 256;
  void Refill() {
    slabs_.push_back(std::make_unique<Block[]>(kSlab));
    unused_.reserve(slabs_.size() * kSlab);
    for (int i = kSlab; i-- > 0;) unused_.push_back(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Block[]>> slabs_;
  std::vector<Block*> unused_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_BLOCK_H_
