// Memory pools (memory_pool.h).
#include <algorithm>
#include <cstring>
#include <iterator>

#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

MemoryPool* FindPool(CUmemoryPool handle) { return runtime().pools.Find(NumberOf(handle)); }

CUresult Give(void* value, uint64_t bytes) {
  std::memcpy(value, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}

CUresult CheckLocation(const CUmemLocation* location) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return CheckDevice(location->id);
}

bool AllZero(const unsigned char (&bytes)[sizeof(CUmemPoolProps::reserved)]) {
  return std::all_of(std::begin(bytes), std::end(bytes), [](unsigned char b) { return b == 0; });
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(dev));
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool_out = runtime().devices[dev].default_pool->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(dev));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = runtime().devices[dev].current_pool.load()->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(dev));
  MemoryPool* found = FindPool(pool);
  Device& device = runtime().devices[dev];
  if (found == nullptr || found->imported || found->device != &device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  device.current_pool.store(found);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location,
                                        CUmemAllocationType type) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckLocation(location));
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceGetDefaultMemPool(pool_out, location->id);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                 CUmemAllocationType type) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckLocation(location));
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceGetMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                 CUmemoryPool pool) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckLocation(location));
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceSetMemPool(location->id, pool);
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  WARPLINE_TRY(EnterInitialized());
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult location = CheckLocation(&poolProps->location);
  if (location != CUDA_SUCCESS) {
    // For a device that does not exist this call returns another error than others do.
    return location == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : location;
  }
  if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
       poolProps->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  // `usage` asks for memory of other kinds.
  if (!AllZero(poolProps->reserved) || poolProps->usage != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = runtime().pools.Add([&](MemoryPool& p, uint64_t number) {
    p.handle = HandleOf<CUmemoryPool>(number);
    p.device = &runtime().devices[poolProps->location.id];
    p.shared_with = 0;
    p.max_bytes = poolProps->maxSize;
    p.handle_types = poolProps->handleTypes;
    p.imported = false;
    p.ResetShareToken("");
  });
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *pool = HandleOf<CUmemoryPool>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* found = FindPool(pool);
  if (found == nullptr || found == found->device->default_pool) return CUDA_ERROR_INVALID_VALUE;
  Device& device = *found->device;
  device.current_pool.compare_exchange_strong(found, device.default_pool);
  runtime().pools.Remove(NumberOf(pool), [](MemoryPool&) {});
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* found = FindPool(pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  found->Trim(minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* found = FindPool(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
      int enabled;
      std::memcpy(&enabled, value, sizeof(enabled));
      found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = enabled;
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: {
      uint64_t bytes;
      std::memcpy(&bytes, value, sizeof(bytes));
      found->set_release_threshold(bytes);
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
      uint64_t bytes;
      std::memcpy(&bytes, value, sizeof(bytes));
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;  // These can only be reset.
      attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? found->ResetUsedHigh() : found->ResetReservedHigh();
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  WARPLINE_TRY(EnterInitialized());
  const MemoryPool* found = FindPool(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
      const int enabled = found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      std::memcpy(value, &enabled, sizeof(enabled));
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: {
      const uint64_t bytes = found->release_threshold();
      std::memcpy(value, &bytes, sizeof(bytes));
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return Give(value, found->usage().reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return Give(value, found->usage().reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return Give(value, found->usage().used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return Give(value, found->usage().used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* found = FindPool(pool);
  if (found == nullptr || (map == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  uint32_t shared_with = found->shared_with;
  for (size_t i = 0; i < count; ++i) {
    WARPLINE_TRY(CheckLocation(&map[i].location));
    const Device& device = runtime().devices[map[i].location.id];
    const bool own = &device == found->device;
    if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      if (!own && !device.can_access(*found->device)) return CUDA_ERROR_INVALID_DEVICE;
      if (!own) shared_with |= 1u << device.number;
    } else if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && !own) {
      shared_with &= ~(1u << device.number);
    } else {
      // The owning device's access cannot be taken away, and no device can have access for reading
      // only.
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  found->shared_with = shared_with;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                    CUmemLocation* location) {
  WARPLINE_TRY(EnterInitialized());
  const MemoryPool* found = FindPool(memPool);
  if (found == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckLocation(location));
  *flags = found->AccessibleTo(runtime().devices[location->id]) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // extern "C"
