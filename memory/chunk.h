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

// One allocation of a device. Its memory lives as long as any descriptor or mapping of it does.
struct Chunk {
  uint64_t bytes = 0;
  UniqueFd fd;
  // The quota that the chunk takes once several sessions hold it, for as long as any of them does.
  // A session that gives back its hold and is not the last only closes its descriptor.
  std::shared_ptr<Reservation> share = nullptr;
  // The piece of its session's quota (Quota::pieces()) that the descriptor takes.
  Reservation piece = {};
};

// Makes another hold on a chunk, for another session. `holder` is the reservation that has covered
// the chunk so far; the first time, the chunk's part moves from it to the share. RESOURCE_EXHAUSTED
// when this process has no descriptor left.
absl::StatusOr<Chunk> ShareChunk(Chunk* chunk, Reservation* holder);

// Returns true if a session of `quota` is not the only one that has the chunk, or has it of
// another.
inline bool IsShared(const Chunk& chunk, const Quota* quota) {
  return chunk.share != nullptr && (chunk.share.use_count() > 1 || chunk.share->quota() != quota);
}

// Undoes ShareChunk() where the chunk is not shared any more: its part moves back to `holder`.
void EndShare(Chunk* chunk, const Quota* quota, Reservation* holder);

// Returns those of the given-back chunks that no other session holds, and closes the others. What
// a share still covers goes to `bill` with its chunk.
std::vector<Chunk> TakeUnshared(std::vector<Chunk> chunks, std::vector<Reservation>* bill);

// The sizes of chunks, largest first. Creating or mapping a chunk costs about the same for any
// size, so large chunks save time and descriptors, and small ones keep small requests small. 20 MiB
// is the step by which PyTorch's expandable segments grow.
inline constexpr std::array<uint64_t, 4> kChunkClasses = {1ull << 30, 64ull << 20, 20ull << 20,
                                                          2ull << 20};

// The bytes of all chunks together.
inline uint64_t TotalBytes(const std::vector<Chunk>& chunks) {
  uint64_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes;
  return total;
}

}  // namespace warpline

#endif  // WARPLINE_MEMORY_CHUNK_H_
