// Device memory by CUDA's virtual memory management, exported as file descriptors.
//
// The descriptor alone keeps the memory alive, so the creator may exit.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
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
  absl::Status AddHost(void* host, uint64_t bytes) override;
  absl::StatusOr<std::vector<bool>> FindUsed(int fd, uint64_t bytes) override;
  absl::Status CopyOut(int fd, uint64_t bytes, absl::Span<const Part> parts) override;
  absl::Status CopyIn(int fd, uint64_t bytes, absl::Span<const Part> parts) override;

 private:
  CudaChunkSource(const DriverApi* api, CUdevice device, CUcontext context)
      : api_(api), device_(device), context_(context) {}

  // Calls `use` with the address at which the chunk is mapped meanwhile, and returns when all that
  // it has begun is done.
  absl::Status WhileMapped(int fd, uint64_t bytes,
                           const std::function<absl::Status(CUdeviceptr va)>& use);
  // Loads the kernel of FindUsed().
  absl::Status LoadFinder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mapping_mu_);

  const DriverApi* const api_;
  const CUdevice device_;
  const CUcontext context_;
  Mutex mapping_mu_;  // Held for one mapping at a time.
  CUfunction finder_ ABSL_GUARDED_BY(mapping_mu_) = nullptr;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_CHUNK_SOURCE_H_
