// Host memory that device memory is moved to. The server holds it, so it outlives every process
// that moves something, and takes it all when it starts: what a page of it costs is then paid.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_SPACE_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/unique_fd.h"

namespace warpline::server {

// Thread-safe. Must outlive the places that it gives.
class SwapSpace {
 public:
  // Sizes and offsets are multiples of this.
  static constexpr uint64_t kGranule = 2u << 20;
  // The most bytes behind one descriptor.
  static constexpr uint64_t kBlockBytes = 1u << 30;

  // A part of a block.
  struct Extent {
    size_t block = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  // The part of it that one owner has. It is given back when this is destroyed.
  class Place {
   public:
    Place() = default;
    ~Place() { GiveBack(); }
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;

    const std::vector<Extent>& extents() const { return extents_; }

   private:
    friend class SwapSpace;
    void GiveBack();

    SwapSpace* space_ = nullptr;
    std::vector<Extent> extents_;
  };

  // Takes `bytes`, rounded up to the granule, from the system: RESOURCE_EXHAUSTED when it does not
  // have that. `threads` take pages at a time. The blocks of `former`, a space of another process,
  // become the first blocks of this one, with what they hold, and count towards `bytes`; they stay
  // if there are more. INVALID_ARGUMENT for descriptors that are no such blocks.
  static absl::StatusOr<std::unique_ptr<SwapSpace>> Open(uint64_t bytes, int threads,
                                                         std::vector<UniqueFd> former = {});

  // Gives `bytes`, a multiple of the granule, in as few extents as there can be.
  // RESOURCE_EXHAUSTED when less is free.
  absl::StatusOr<Place> Take(uint64_t bytes);
  // Gives exactly these. INVALID_ARGUMENT when a part of them is not there, or is not free.
  absl::StatusOr<Place> TakeAt(std::vector<Extent> extents);

  uint64_t bytes() const { return bytes_; }
  uint64_t free_bytes() const;
  size_t blocks() const { return blocks_.size(); }
  int block_fd(size_t block) const { return blocks_[block].fd.get(); }
  uint64_t block_bytes(size_t block) const { return blocks_[block].bytes; }

 private:
  struct Block {
    UniqueFd fd;
    uint64_t bytes = 0;
  };

  SwapSpace(std::vector<Block> blocks, uint64_t bytes);
  void GiveBack(const std::vector<Extent>& extents);
  void GiveBackLocked(const std::vector<Extent>& extents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<Block> blocks_;
  const uint64_t bytes_;
  mutable Mutex mu_;
  std::vector<std::vector<bool>> taken_ ABSL_GUARDED_BY(mu_);  // By block and granule.
  uint64_t free_bytes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_SPACE_H_
