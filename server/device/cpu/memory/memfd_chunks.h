// Device memory of the CPU device: anonymous files that processes can share. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMFD_CHUNKS_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMFD_CHUNKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/device/device.h"

namespace warpline::cpu {

class MemfdChunks : public device::ChunkSource {
 public:
  // The size cannot be changed afterwards by any holder of the descriptor, so a mapped page cannot
  // be made to vanish.
  absl::StatusOr<UniqueFd> CreateChunk(uint64_t bytes) override;
  // Gives the pages back to the system, which hands out zeros in their place.
  absl::Status ScrubChunk(int fd, uint64_t bytes) override;
  absl::StatusOr<std::optional<uint64_t>> FreeBytes() override { return std::optional<uint64_t>(); }
  absl::Status AddHost(void*, uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<bool>> FindUsed(int fd, uint64_t bytes) override;
  absl::Status CopyOut(int fd, uint64_t bytes, absl::Span<const Part> parts) override;
  absl::Status CopyIn(int fd, uint64_t bytes, absl::Span<const Part> parts) override;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMFD_CHUNKS_H_
