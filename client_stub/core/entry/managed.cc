// Managed memory: the same pointers for host code and kernels (mirrored_memory.h).
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/managed/range_advice.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

// Returns the location that a call without types names by `device`.
CUmemLocation LocationOf(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

bool HasNode(int node) {
  return node >= 0 &&
         access(("/sys/devices/system/node/node" + std::to_string(node)).c_str(), F_OK) == 0;
}

// Checks a location and resolves it to a device, the host, or a numbered node of the host.
CUresult Resolve(CUmemLocation* location) {
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return CheckDevice(location->id);
    case CU_MEM_LOCATION_TYPE_HOST:
      location->id = 0;
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return HasNode(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: {
      unsigned int node = 0;
      syscall(SYS_getcpu, nullptr, &node, nullptr);
      *location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, static_cast<int>(node)};
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Say(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation where) {
  WARPLINE_TRY(Enter());
  const bool accessed =
      advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  // Other advice names no location.
  if (accessed || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION) {
    if (accessed && where.type != CU_MEM_LOCATION_TYPE_DEVICE &&
        where.type != CU_MEM_LOCATION_TYPE_HOST) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult known = Resolve(&where);
    // For a location that does not exist, advice about access gets this error from NVIDIA's driver.
    if (known != CUDA_SUCCESS) return accessed ? CUDA_ERROR_INVALID_VALUE : known;
  }
  const int accessor = where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : CU_DEVICE_CPU;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return runtime().mirrored->Advise(address, bytes, [advice](Advice* said) {
        said->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      });
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      return runtime().mirrored->Advise(address, bytes,
                                        [&where](Advice* said) { said->preferred = where; });
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return runtime().mirrored->Advise(address, bytes, [](Advice* said) { said->preferred = {}; });
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      return runtime().mirrored->Advise(
          address, bytes, [accessor](Advice* said) { said->accessed_by.insert(accessor); });
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return runtime().mirrored->Advise(
          address, bytes, [accessor](Advice* said) { said->accessed_by.erase(accessor); });
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Prefetch(CUdeviceptr address, size_t bytes, CUmemLocation to, unsigned int flags,
                  CUstream handle, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(Resolve(&to));
  WARPLINE_TRY(runtime().mirrored->CheckManaged(address, bytes));
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  return runtime().mirrored->Prefetch(address, bytes, to);
}

struct Batch {
  const CUdeviceptr* addresses;
  const size_t* sizes;
  size_t count;
  // Locations, each for the ranges from its index in `first` up to the next one's; nullptr where
  // the call names none.
  const CUmemLocation* locations;
  const size_t* first;
  size_t location_count;
};

CUresult CheckLocations(const Batch& batch, std::vector<CUmemLocation>* locations) {
  const size_t count = batch.location_count;
  if (batch.locations == nullptr || batch.first == nullptr || count == 0 || count > batch.count ||
      batch.first[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (batch.first[i] >= batch.count || (i > 0 && batch.first[i] <= batch.first[i - 1])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    locations->push_back(batch.locations[i]);
    WARPLINE_TRY(Resolve(&locations->back()));
  }
  return CUDA_SUCCESS;
}

// Checks all of a batch before it does the first part.
CUresult Run(const Batch& batch, bool discard, bool prefetch, unsigned long long flags,
             CUstream handle, DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  // The legacy stream takes no batches.
  if (handle == CU_STREAM_LEGACY || (handle == nullptr && null_means == kLegacy)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (batch.addresses == nullptr || batch.sizes == nullptr || batch.count == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUmemLocation> locations;
  if (prefetch) WARPLINE_TRY(CheckLocations(batch, &locations));
  MirroredMemory& mirrored = *runtime().mirrored;
  for (size_t i = 0; i < batch.count; ++i) {
    WARPLINE_TRY(mirrored.CheckManaged(batch.addresses[i], batch.sizes[i]));
  }
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  size_t location = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    if (location + 1 < locations.size() && batch.first[location + 1] == i) ++location;
    if (discard) {
      const bool to_host = prefetch && locations[location].type != CU_MEM_LOCATION_TYPE_DEVICE;
      WARPLINE_TRY(mirrored.Discard(batch.addresses[i], batch.sizes[i], to_host));
    }
    if (!prefetch) continue;
    WARPLINE_TRY(mirrored.Prefetch(batch.addresses[i], batch.sizes[i], locations[location]));
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  WARPLINE_TRY(EnterUnsafe());
  const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (dptr == nullptr || bytesize == 0 || !known) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  WARPLINE_TRY(runtime().mirrored->Allocate(MirroredMemory::Kind::kManaged, CurrentDevice().number,
                                            CurrentOwner(), bytesize, flags, &address));
  *dptr = address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device) {
  return Say(devPtr, count, advice, LocationOf(device));
}
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location) {
  return Say(devPtr, count, advice, location);
}

CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t dataSize,
                                        CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                        size_t count) {
  WARPLINE_TRY(Enter());
  Advice advice;
  WARPLINE_TRY(runtime().mirrored->AdviceOf(devPtr, count, &advice));
  return GiveRangeAttribute(advice, attribute, data, dataSize);
}
CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                         CUmem_range_attribute* attributes, size_t numAttributes,
                                         CUdeviceptr devPtr, size_t count) {
  WARPLINE_TRY(Enter());
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Advice advice;
  WARPLINE_TRY(runtime().mirrored->AdviceOf(devPtr, count, &advice));
  for (size_t i = 0; i < numAttributes; ++i) {
    WARPLINE_TRY(GiveRangeAttribute(advice, attributes[i], data[i], dataSizes[i]));
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream) {
  return Prefetch(devPtr, count, LocationOf(dstDevice), 0, hStream, kLegacy);
}
CUresult CUDAAPI cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                         CUstream hStream) {
  return Prefetch(devPtr, count, LocationOf(dstDevice), 0, hStream, kPerThread);
}
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream) {
  return Prefetch(devPtr, count, location, flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
                                            CUmemLocation location, unsigned int flags,
                                            CUstream hStream) {
  return Prefetch(devPtr, count, location, flags, hStream, kPerThread);
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                         CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags,
                                         CUstream hStream) {
  return Run({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
             /*discard=*/false, /*prefetch=*/true, flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemPrefetchBatchAsync_ptsz(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                              CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                              size_t numPrefetchLocs, unsigned long long flags,
                                              CUstream hStream) {
  return Run({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
             /*discard=*/false, /*prefetch=*/true, flags, hStream, kPerThread);
}

CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                        unsigned long long flags, CUstream hStream) {
  return Run({dptrs, sizes, count, nullptr, nullptr, 0}, /*discard=*/true, /*prefetch=*/false,
             flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemDiscardBatchAsync_ptsz(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                             unsigned long long flags, CUstream hStream) {
  return Run({dptrs, sizes, count, nullptr, nullptr, 0}, /*discard=*/true, /*prefetch=*/false,
             flags, hStream, kPerThread);
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                   CUmemLocation* prefetchLocs,
                                                   size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                   unsigned long long flags, CUstream hStream) {
  return Run({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
             /*discard=*/true, /*prefetch=*/true, flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync_ptsz(
    CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
    size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  return Run({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs},
             /*discard=*/true, /*prefetch=*/true, flags, hStream, kPerThread);
}

}  // extern "C"
