// The content of chunks that were moved from a device: in host memory, or in a file.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_AWAY_MEMORY_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_AWAY_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/gpu_server/memory/swap_file.h"
#include "server/gpu_server/memory/swap_space.h"

namespace warpline::server {

// Its owner and the thread that moves it use it by turns, all but `wanted`.
struct AwayMemory {
  std::vector<bool> used;          // By granule of SwapSpace; parts that were zeros are not.
  SwapSpace::Place place;          // Holds the used ones, in their order, or nothing.
  std::unique_ptr<SwapFile> file;  // Holds them in place of `place`; null otherwise.
  // Its owner waits for it, so that it is not written to a file any further.
  std::atomic<bool> wanted{false};

  uint64_t bytes() const { return used.size() * SwapSpace::kGranule; }
  // Returns the bytes that are not zeros.
  uint64_t held_bytes() const;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_AWAY_MEMORY_H_
