#include "memory/chunk.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace warpline {

absl::StatusOr<Chunk> ShareChunk(Chunk* chunk, Reservation* holder) {
  UniqueFd fd(fcntl(chunk->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (fd.get() < 0) return absl::ResourceExhaustedError("no descriptor left for a shared chunk");
  if (chunk->share == nullptr) {
    chunk->share = std::make_shared<Reservation>(holder->Split(chunk->bytes));
  }
  return Chunk{chunk->bytes, std::move(fd), chunk->share};
}

void EndShare(Chunk* chunk, const Quota* quota, Reservation* holder) {
  if (chunk->share == nullptr || IsShared(*chunk, quota)) return;
  holder->Merge(std::move(*chunk->share));
  chunk->share.reset();
}

std::vector<Chunk> TakeUnshared(std::vector<Chunk> chunks, std::vector<Reservation>* bill) {
  // Two holds on one chunk may be given back together, so each is looked at by itself.
  std::vector<Chunk> last;
  for (Chunk& chunk : chunks) {
    const bool others = chunk.share != nullptr && chunk.share.use_count() > 1;
    if (chunk.share != nullptr && !others) bill->push_back(std::move(*chunk.share));
    chunk.share.reset();
    if (!others) last.push_back(std::move(chunk));
  }
  return last;
}

}  // namespace warpline
