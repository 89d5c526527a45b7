// A context's work on memory: copies, fills, operations on words.
//
//   copies->Memset(dst, 0, 4, count, stream);
//   copies->CopyFromDevice(staging, dst, bytes, stream);  // Filled once an event after it is
//   complete.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_COPIES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_COPIES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. Work on a stream is done in the order of its submission. Either end of a copy
// between places on devices may be memory of another context that was opened with this one.
//
// A place on a device is in the arena, in one segment of mapped host memory, or among modules'
// variables, with all of its bytes. The rest is the worker's own and gets kInvalidValue.
class Copies {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Copies() = default;

  // `src` has been read when this returns.
  virtual CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) = 0;
  // `dst` must come from AllocStaging and is filled when the stream has passed this point.
  virtual CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) = 0;
  virtual CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) = 0;

  // Sets `count` elements of `width` (1, 2 or 4) bytes to the low bits of `value`.
  virtual CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                            StreamId stream) = 0;
  // Does the same in each of `rows` rows, which are `pitch` bytes apart.
  virtual CudaResult MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width,
                                size_t columns, size_t rows, StreamId stream) = 0;

  // --- Boxes. kInvalidValue for what is no box (BoxSpan). The host's end is memory from
  // AllocStaging that holds the rows without gaps, and must not change until the stream has passed
  // this point.
  virtual CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                                     StreamId stream) = 0;
  virtual CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                                       StreamId stream) = 0;
  virtual CudaResult CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src,
                                     const BoxExtent& extent, StreamId stream) = 0;

  // Operates on aligned words of the arena or of mapped host memory. The call does not wait for
  // what the operations wait for. kInvalidValue for an unknown kind or flag, kNotSupported for one
  // that the device lacks.
  virtual CudaResult MemOps(absl::Span<const MemOp> operations, StreamId stream) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_COPIES_H_
