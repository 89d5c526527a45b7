// A context's memory: the arena and what is mapped in it, and memory of the host.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. No method waits for device work unless it says so.
class Memory {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Memory() = default;

  // The contexts whose memory kernels of this one reach, as bits by their places in OpenContexts().
  // Its own is among them.
  virtual uint32_t peers() const = 0;

  // Reserves [base, base + size) of device addresses, for all contexts that were opened together.
  // Once, on any of them, before anything is mapped. `size` is a power of two, and `base` a
  // multiple of it.
  virtual CudaResult ReserveArena(uint64_t base, uint64_t size) = 0;
  // Maps the whole chunk behind `fd` (borrowed; from this device's ChunkSource) at `va`, readable
  // and writable for this device and all that reach its memory. kInvalidValue when the range is
  // outside the arena, unaligned to 2 MiB or already mapped.
  virtual CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) = 0;
  // Undoes one MapChunk. The caller has made sure that no work uses the range: this does not wait.
  virtual CudaResult UnmapChunk(uint64_t va, uint64_t bytes) = 0;
  // Maps memory of the context's own at [va, va + bytes), granules of 2 MiB of the arena in which
  // no chunk is mapped: what stray accesses reach there does no harm. It is zeroed at first, any of
  // it may be the same memory, and a chunk that is mapped there later takes its place.
  // kInvalidValue as MapChunk().
  virtual CudaResult MapSink(uint64_t va, uint64_t bytes) = 0;
  // Sets what the device, and those that reach its memory, may do with one mapped chunk from now
  // on. kInvalidValue where none is.
  virtual CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) = 0;
  // Maps the whole file behind `fd` (borrowed), host memory, at `va` outside the arena, for host
  // and device alike. kInvalidValue when something is there, kNotSupported when the device has
  // another address for it. All contexts that were opened together reach it.
  virtual CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) = 0;
  // Undoes one MapHost, after what runs.
  virtual CudaResult UnmapHost(uint64_t va, uint64_t bytes) = 0;
  // Host memory that copies to and from the device are fastest with (pinned, where that exists),
  // for all contexts that were opened together.
  virtual CudaResult AllocStaging(size_t bytes, void** host) = 0;
  virtual void FreeStaging(void* host) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_
