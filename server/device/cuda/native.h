// Converts numbers of objects to the driver's types.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_NATIVE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_NATIVE_H_

#include <cuda.h>

#include <cstdint>

#include "server/device/facets/types.h"

namespace warpline::device {

inline CUstream Native(StreamId id) {
  return id == kLegacyStream ? CU_STREAM_LEGACY
                             : reinterpret_cast<CUstream>(static_cast<uint64_t>(id));
}
inline CUevent Native(EventId id) { return reinterpret_cast<CUevent>(static_cast<uint64_t>(id)); }
inline CUlibrary Native(ModuleId id) {
  return reinterpret_cast<CUlibrary>(static_cast<uint64_t>(id));
}
inline CUkernel Native(KernelId id) {
  return reinterpret_cast<CUkernel>(static_cast<uint64_t>(id));
}
inline CUgraph Native(FrameId id) { return reinterpret_cast<CUgraph>(static_cast<uint64_t>(id)); }
inline CUgreenCtx Native(PartitionId id) {
  return reinterpret_cast<CUgreenCtx>(static_cast<uint64_t>(id));
}
// A graph that can be launched.
inline CUgraphExec Native(GraphId id) {
  return reinterpret_cast<CUgraphExec>(static_cast<uint64_t>(id));
}

// The driver takes kernels of libraries wherever it takes a function.
inline CUfunction NativeFunction(KernelId id) {
  return reinterpret_cast<CUfunction>(static_cast<uint64_t>(id));
}

// An array's id is the driver's handle, which is an address; its lowest bit says whether the handle
// is that of a mipmapped array.
inline constexpr uint64_t kMipmappedBit = 1;
inline bool IsMipmapped(ArrayId id) { return (static_cast<uint64_t>(id) & kMipmappedBit) != 0; }
inline CUarray NativeArray(ArrayId id) {
  return reinterpret_cast<CUarray>(static_cast<uint64_t>(id));
}
inline CUmipmappedArray NativeMipmapped(ArrayId id) {
  return reinterpret_cast<CUmipmappedArray>(static_cast<uint64_t>(id) & ~kMipmappedBit);
}

template <typename Id, typename Handle>
Id ToId(Handle handle) {
  return static_cast<Id>(reinterpret_cast<uint64_t>(handle));
}

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_NATIVE_H_
