// Physical device memory as the server sees it: chunks, each behind a descriptor.
#ifndef WARPLINE_MEMORY_CHUNK_H_
#define WARPLINE_MEMORY_CHUNK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "memory/quota.h"

namespace warpline {

// One allocation of a device. Its memory lives as long as any descriptor or mapping of it.
struct Chunk {
  uint64_t bytes = 0;
  UniqueFd fd;
  // Set once several sessions hold the chunk: the quota that it takes, for as long as any of them
  // holds it. Who gives back a chunk and is not the last one closes its descriptor and no more.
  std::shared_ptr<Reservation> share = nullptr;
};

// Another hold on a chunk, for another session. `holder` is the reservation that covers the chunk
// so far; the first time, the chunk's part moves from there to the share. RESOURCE_EXHAUSTED when
// this process has no descriptor left.
absl::StatusOr<Chunk> ShareChunk(Chunk* chunk, Reservation* holder);

// Of chunks that are given back, those that nobody else holds; the others are closed.
std::vector<Chunk> TakeUnshared(std::vector<Chunk> chunks);

// The sizes that chunks come in, largest first. Creating or mapping a chunk costs about the same
// for any size, so large ones save time and descriptors; small ones keep small requests small. 20
// MiB is what PyTorch's expandable segments grow by.
inline constexpr std::array<uint64_t, 4> kChunkClasses = {1ull << 30, 64ull << 20, 20ull << 20,
                                                          2ull << 20};

// The sum over chunks.
inline uint64_t TotalBytes(const std::vector<Chunk>& chunks) {
  uint64_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes;
  return total;
}

}  // namespace warpline

#endif  // WARPLINE_MEMORY_CHUNK_H_
