// A context's memory: the arena and what is mapped in it, and memory of the host.
//
//   memory->ReserveArena(base, size);  // Once.
//   memory->MapChunk(base, chunk_bytes, chunk_fd);
//   ...
//   memory->UnmapChunk(base, chunk_bytes);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_

#include <bit>
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
  // In a context of a shared device, the size of each of the two zones beside the arena. They are
  // reserved with it, so arenas of one shared device lie so far apart at least, twice over.
  static constexpr uint64_t kZoneBytes = uint64_t{64} << 20;

  // Whether sinks may consist of granules of this size (SharedContextOptions).
  static constexpr bool IsSinkGranule(uint64_t bytes) {
    return std::has_single_bit(bytes) && bytes >= kBlockBytes && bytes <= kZoneBytes;
  }

  virtual ~Memory() = default;

  // The contexts whose memory the kernels of this one reach, as bits by their places in
  // OpenContexts(). Its own is among them.
  virtual uint32_t peers() const = 0;

  // Reserves [base, base + size) of device addresses for all contexts that were opened together.
  // Call it once, on any of them, before anything is mapped. `size` is a power of two, and `base` a
  // multiple of it.
  virtual CudaResult ReserveArena(uint64_t base, uint64_t size) = 0;
  // Maps the whole chunk behind `fd` (borrowed; from this device's ChunkSource) at `va`, readable
  // and writable for this device and for all that reach its memory. kInvalidValue when the range is
  // outside the arena, is not aligned to 2 MiB, or is already mapped.
  virtual CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) = 0;
  // Undoes one MapChunk(). It does not wait, so the caller must have made sure that no work uses
  // the range.
  virtual CudaResult UnmapChunk(uint64_t va, uint64_t bytes) = 0;
  // Maps memory of the context's own at [va, va + bytes), so that stray accesses there do no harm.
  // The range consists of granules of 2 MiB of the arena in which no chunk is mapped. The memory is
  // zeroed at first, any of it may be the same memory, and a chunk that is mapped there later takes
  // its place. kInvalidValue as for MapChunk().
  virtual CudaResult MapSink(uint64_t va, uint64_t bytes) = 0;
  // Maps memory of the context's own at [va, va + bytes), which holds zeros and ends with the
  // context. kInvalidValue as for MapChunk().
  virtual CudaResult MapOwn(uint64_t va, uint64_t bytes) = 0;
  // For a context of a shared device, once its memory is mapped and before anything runs. Maps a
  // sink wherever nothing is mapped in the arena and in the zones beside it, so that no access that
  // a guarded kernel can make faults. From now on nothing is mapped or unmapped: a hole would be
  // there for a moment, so that is kNotSupported. For other contexts this is kNotSupported.
  virtual CudaResult Seal() = 0;
  // Undoes Seal() for a while, so that chunks can leave and come back: sinks stay, and what is
  // unmapped leaves a hole. The caller sees to it that nothing runs before the next Seal(), which
  // fills the holes that are left. kNotReady when work of the context is under way, kNotSupported
  // when it is not sealed.
  virtual CudaResult Unseal() = 0;
  // The memory of the context's own that MapSink(), MapOwn() and Seal() have taken so far.
  virtual uint64_t own_bytes() const = 0;
  // Sets what the device, and those that reach its memory, may do with one mapped chunk from now
  // on. kInvalidValue when no chunk is mapped there.
  virtual CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) = 0;
  // Maps the whole file behind `fd` (borrowed), which is host memory, at `va` outside the arena,
  // for host and device alike. All contexts that were opened together reach it. kInvalidValue when
  // something is there, kNotSupported when the device has another address for it.
  virtual CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) = 0;
  // For a context of a shared device: [va, va + bytes), outside the arena, names memory of the host
  // from now on that the device reaches by copies at `host`, page-locked where that exists: a
  // HostWindow of that device's, which stays as it is until the context has ended. kNotSupported
  // for other contexts.
  virtual CudaResult ShowHost(uint64_t va, uint64_t bytes, void* host) = 0;
  // Undoes one MapHost(), after work that runs has finished.
  virtual CudaResult UnmapHost(uint64_t va, uint64_t bytes) = 0;
  // From now on, commands reach of the memory of modules only the variables that AddVariable()
  // names, in all contexts that were opened together.
  virtual void LimitVariables() = 0;
  // Names a variable that Modules::FindGlobal() has found, or a part of one. Commands name it at
  // `named`, where no other begins: at its address, or anywhere in the arena.
  virtual void AddVariable(uint64_t named, uint64_t bytes, uint64_t address) = 0;
  // Finds the memory of modules in which `address` lies, with what has no name there: a block of
  // the backend's or, after LimitVariables(), one variable. `*owner` is the place of its context
  // among those that were opened together. kNotFound for all other memory.
  virtual CudaResult FindVariables(uint64_t address, uint64_t* base, uint64_t* bytes,
                                   uint32_t* owner) = 0;
  // Undoes one AddVariable(), before the variable's module is unloaded.
  virtual void RemoveVariable(uint64_t named) = 0;
  // Allocates host memory with which copies to and from the device are fastest (pinned, where that
  // exists), for all contexts that were opened together.
  virtual CudaResult AllocStaging(size_t bytes, void** host) = 0;
  virtual void FreeStaging(void* host) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_MEMORY_H_
