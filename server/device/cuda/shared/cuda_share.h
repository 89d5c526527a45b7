// The parts of a context of a shared device that other contexts do not have.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "server/device/cuda/libraries/cublas_library.h"
#include "server/device/cuda/shared/green_contexts.h"
#include "server/device/cuda/shared/session_streams.h"
#include "server/device/cuda/shared/share_planner.h"
#include "server/device/staging_pool.h"

namespace warpline::device {

// Its parts are thread-safe. The streams are destroyed before the session, because they use it.
struct CudaShare {
  StagingPool* staging = nullptr;           // Borrowed from the shared device.
  absl::Span<const std::byte> zeros;        // Page-locked; borrowed from the device.
  const GreenContexts* contexts = nullptr;  // Borrowed from the device.
  CublasLibrary* cublas = nullptr;          // Borrowed from the device; null if there is none.
  // How many times as long operations in double precision take.
  uint64_t double_ratio = 1;
  uint64_t local_bytes = 0;         // SharedDeviceOptions::local_bytes.
  uint64_t sink_granule_bytes = 0;  // SharedContextOptions::sink_granule_bytes.
  std::unique_ptr<SharePlanner::Session> session;
  std::unique_ptr<SessionStreams> streams;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARE_H_
