#include "client_stub/core/bulk/shared_staging.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace warpline::stub {
namespace {

// Bounds of a process's staging memory, which grows with the largest copy that it has made.
constexpr uint64_t kLeastBytes = 4u << 20;
constexpr uint64_t kMostBytes = 32u << 20;
// Each part has this many pieces, so that none waits for the others.
constexpr uint64_t kPiecesOfPart = 8;

}  // namespace

int SharedStaging::Reserve(uint64_t bytes, int parts) {
  const uint64_t pieces = static_cast<uint64_t>(parts) * kPiecesOfPart;
  const uint64_t least = std::clamp(pieces * pool_.piece_bytes(), kLeastBytes, kMostBytes);
  const uint64_t wanted = std::clamp(std::bit_ceil(bytes) / 2, least, kMostBytes);
  MutexLock lock(&mu_);
  // A server that refused once is not asked again: copies can always take another way.
  if (bytes_ >= wanted || refused_) return bytes_ > 0 ? parts : 0;
  uint64_t address = 0, got = 0;
  if (memory_->AllocateStaging(wanted - bytes_, kMostBytes, &address, &got) !=
      CudaResult::kSuccess) {
    refused_ = true;
    return bytes_ > 0 ? parts : 0;
  }
  pool_.Add(address, got);
  bytes_ += got;
  return parts;
}

BulkTicket SharedStaging::Fill(int, uint64_t piece, const void* from, uint64_t bytes) {
  std::memcpy(reinterpret_cast<void*>(piece), from, bytes);
  return {};
}

BulkTicket SharedStaging::Fetch(int, uint64_t piece, void* to, uint64_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(piece), bytes);
  return {};
}

}  // namespace warpline::stub
