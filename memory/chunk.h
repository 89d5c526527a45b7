// Physical device memory as the server sees it: chunks, each behind a descriptor.
#ifndef WARPLINE_MEMORY_CHUNK_H_
#define WARPLINE_MEMORY_CHUNK_H_

#include <array>
#include <cstdint>
#include <vector>

#include "common/unique_fd.h"

namespace warpline {

// One allocation of a device. Its memory lives as long as any descriptor or mapping of it.
struct Chunk {
  uint64_t bytes = 0;
  UniqueFd fd;
};

// The sizes that chunks come in, largest first. Creating or mapping a chunk costs about the same
// for any size, so large ones save time and descriptors; small ones keep small requests small.
inline constexpr std::array<uint64_t, 3> kChunkClasses = {1ull << 30, 64ull << 20, 2ull << 20};

// The sum over chunks.
inline uint64_t TotalBytes(const std::vector<Chunk>& chunks) {
  uint64_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes;
  return total;
}

}  // namespace warpline

#endif  // WARPLINE_MEMORY_CHUNK_H_
