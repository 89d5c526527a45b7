// A GPU's copies, fills and operations on words.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_COPIES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_COPIES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/copies.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaCopies : public virtual Copies, protected CudaPart {
 public:
  explicit CudaCopies(CudaMember* member) : CudaPart(*member) {}

  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) override;
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) override;
  CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) override;
  CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                    StreamId stream) override;
  CudaResult MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width, size_t columns,
                        size_t rows, StreamId stream) override;
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             StreamId stream) override;
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               StreamId stream) override;
  CudaResult CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src, const BoxExtent& extent,
                             StreamId stream) override;
  CudaResult MemOps(absl::Span<const MemOp> operations, StreamId stream) override;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_COPIES_H_
