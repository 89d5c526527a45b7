// Device memory: allocated inside the arena, most often without asking the server (arena/).
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/graph/graph_memory.h"
#include "client_stub/core/graph/graph_nodes.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

// Rows of a pitched allocation start at multiples of this, as on NVIDIA's devices.
constexpr uint64_t kPitchAlignment = 512;

// In a capture, an allocation becomes a node, and so does a free.
CUresult CaptureAllocate(Stream* stream, const Device& device, size_t bytes, CUdeviceptr* dptr) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v2 params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.poolProps.location.id = static_cast<int>(device.number);
  params.bytesize = bytes;
  WARPLINE_TRY(
      CaptureWith(stream, [&](Graph* graph, const std::vector<GraphEdge>& edges, GraphNode** node) {
        return AddMemAllocNode(graph, edges, &params, node);
      }));
  *dptr = params.dptr;
  return CUDA_SUCCESS;
}

CUresult CaptureFree(Stream* stream, CUdeviceptr address) {
  return CaptureWith(stream,
                     [&](Graph* graph, const std::vector<GraphEdge>& edges, GraphNode** node) {
                       return AddMemFreeNode(graph, edges, address, node);
                     });
}

// Allocates from `pool`, or from the current pool of the stream's device without one.
CUresult AllocateAsync(CUdeviceptr* dptr, size_t bytes, MemoryPool* pool, CUstream handle,
                       DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(handle));
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = FindStream(handle, null_means);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pool == nullptr) pool = stream->device->current_pool.load();
  // No bytes have no address. That holds for a stream that captures, too.
  if (bytes == 0) {
    *dptr = 0;
    return CUDA_SUCCESS;
  }
  if (Captured(*stream)) return CaptureAllocate(stream, *pool->device, bytes, dptr);
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  // The allocation belongs to the current context, or the stream's where there is none, provided
  // that context is one of the pool's device; else to the device's primary context. It ends with
  // that context.
  Context* owner =
      t_thread.current != nullptr ? t_thread.current : static_cast<Context*>(stream->context);
  if (owner == nullptr || owner->device != pool->device) owner = pool->device->primary;
  owner = OwnerOf(owner);
  uint64_t address;
  WARPLINE_TRY(runtime().memory->AllocateAsync(pool->device->number, owner, pool, bytes,
                                               stream->wire, &address));
  *dptr = address;
  return CUDA_SUCCESS;
}

CUresult AllocateFromPoolAsync(CUdeviceptr* dptr, size_t bytes, CUmemoryPool handle,
                               CUstream stream, DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream));
  MemoryPool* pool = runtime().pools.Find(NumberOf(handle));
  if (pool == nullptr || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  return AllocateAsync(dptr, bytes, pool, stream, null_means);
}

CUresult AllocateFromCurrentPoolAsync(CUdeviceptr* dptr, size_t bytes, CUstream stream,
                                      DefaultStream null_means) {
  return AllocateAsync(dptr, bytes, nullptr, stream, null_means);
}

CUresult FreeAsync(CUdeviceptr dptr, CUstream handle, DefaultStream null_means) {
  if (Exiting()) return CUDA_SUCCESS;
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (dptr == 0) return CUDA_SUCCESS;
  if (Captured(*stream)) return CaptureFree(stream, dptr);
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  if (CUresult result; FreeGraphMemory(dptr, &result)) return result;
  return runtime().memory->FreeAsync(dptr, stream->wire);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetInfo_v2(size_t* free, size_t* total) {
  WARPLINE_TRY(Enter());
  uint64_t free_bytes, total_bytes;
  CurrentDevice().allocator->MemoryInfo(&free_bytes, &total_bytes);
  if (free != nullptr) *free = free_bytes;
  if (total != nullptr) *total = total_bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  WARPLINE_TRY(EnterUnsafe());
  if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  WARPLINE_TRY(
      runtime().memory->Allocate(CurrentDevice().number, CurrentOwner(), bytesize, &address));
  *dptr = address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                    size_t Height, unsigned int ElementSizeBytes) {
  WARPLINE_TRY(Enter());
  const bool known_element =
      ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0 || !known_element) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t pitch, bytes;
  if (__builtin_add_overflow(WidthInBytes, kPitchAlignment - 1, &pitch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pitch &= ~(kPitchAlignment - 1);
  if (__builtin_mul_overflow(pitch, Height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  WARPLINE_TRY(cuMemAlloc_v2(dptr, bytes));
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  if (dptr == 0) {
    const Context* const current = t_thread.current;
    return current != nullptr && !current->alive() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                   : SessionError();
  }
  WARPLINE_TRY(EnterObjectUnsafe());
  if (CUresult result; FreeGraphMemory(dptr, &result)) return result;
  // A pool's memory is freed in the order of its stream.
  DeviceMemory::Range freed;
  const bool found = runtime().memory->Find(dptr, &freed);
  if (!found || freed.pool == nullptr) {
    Device& device = found ? runtime().devices[freed.device] : CurrentDevice();
    WARPLINE_TRY(AwaitWorkBeforeFree(device));
  }
  if (runtime().mirrored->any()) {
    MirroredMemory::Range range;
    if (runtime().mirrored->Find(dptr, &range)) {
      return runtime().mirrored->Free(MirroredMemory::Kind::kManaged, dptr);
    }
  }
  return runtime().memory->Free(dptr);
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  WARPLINE_TRY(Enter());
  MirroredMemory::Range mirrored;
  DeviceMemory::Range range;
  bool known = true;
  runtime().memory->LearnBlock(dptr);
  if (runtime().mirrored->any() && runtime().mirrored->Find(dptr, &mirrored)) {
    range.base = dptr - mirrored.host < mirrored.bytes ? mirrored.host : mirrored.device;
    range.bytes = mirrored.bytes;
  } else if (HostMemory::Range host;
             runtime().host_memory->HostsArena(dptr) &&
             runtime().host_memory->Find(reinterpret_cast<const void*>(dptr), &host)) {
    range.base = reinterpret_cast<uint64_t>(host.base);
    range.bytes = host.bytes;
  } else {
    known = runtime().memory->Find(dptr, &range);
  }
  // The outputs for a wrong address are zeros, as with NVIDIA's driver.
  if (pbase != nullptr) *pbase = known ? range.base : 0;
  if (psize != nullptr) *psize = known ? range.bytes : 0;
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return AllocateFromCurrentPoolAsync(dptr, bytesize, hStream, DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return AllocateFromCurrentPoolAsync(dptr, bytesize, hStream, DefaultStream::kPerThread);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream) {
  return AllocateFromPoolAsync(dptr, bytesize, pool, hStream, DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                              CUstream hStream) {
  return AllocateFromPoolAsync(dptr, bytesize, pool, hStream, DefaultStream::kPerThread);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return FreeAsync(dptr, hStream, DefaultStream::kLegacy);
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  return FreeAsync(dptr, hStream, DefaultStream::kPerThread);
}

}  // extern "C"
