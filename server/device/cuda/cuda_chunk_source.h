// Device memory by CUDA's virtual memory management, exported as file descriptors.
//
// The descriptor alone keeps the memory alive, so the creator may exit.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/device.h"

namespace warpline::device {

// Thread-safe.
class CudaChunkSource : public ChunkSource {
 public:
  static absl::StatusOr<std::unique_ptr<ChunkSource>> Open(const DriverApi* api, int ordinal);
  ~CudaChunkSource() override;

  absl::StatusOr<UniqueFd> CreateChunk(uint64_t bytes) override;
  absl::Status ScrubChunk(int fd, uint64_t bytes) override;
  absl::StatusOr<std::optional<uint64_t>> FreeBytes() override;

 private:
  CudaChunkSource(const DriverApi* api, CUdevice device, CUcontext context)
      : api_(api), device_(device), context_(context) {}

  const DriverApi* const api_;
  const CUdevice device_;
  const CUcontext context_;
  Mutex scrub_mu_;  // Held for one mapping at a time.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_
