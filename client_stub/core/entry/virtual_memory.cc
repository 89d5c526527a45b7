// Memory that the application maps by itself (virtual_memory.h).
#include "client_stub/core/memory/virtual_memory.h"

#include "client_stub/core/memory/shared_descriptor.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "proto/devices.h"
#include "proto/frames.h"

using namespace warpline::stub;

namespace {

VirtualMemory& memory() { return *runtime().virtual_memory; }

CUresult CheckProperties(const CUmemAllocationProp* properties) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->type == CU_MEM_ALLOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CheckDevice(properties->location.id);
}

// Refuses handle types that cannot exist here: those of Windows, and memory of several hosts.
CUresult CheckHandleTypes(CUmemAllocationHandleType types) {
  return types == CU_MEM_HANDLE_TYPE_NONE || types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

bool IsDevice(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && CheckDevice(location.id) == CUDA_SUCCESS;
}

bool KnownAccess(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult RefuseArrays(CUarrayMapInfo* list, unsigned int count) {
  WARPLINE_TRY(Enter());
  return list == nullptr || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                               CUmemAllocationGranularity_flags option) {
  WARPLINE_TRY(EnterInitialized());
  if (granularity == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(CheckProperties(prop));
  *granularity = warpline::kChunkGranularity;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  if (ptr == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  WARPLINE_TRY(ToCu(memory().Reserve(CurrentDevice().number, size, alignment, addr, &address)));
  *ptr = address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  return ToCu(memory().FreeAddresses(ptr, size));
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop, unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckProperties(prop));
  WARPLINE_TRY(CheckHandleTypes(prop->requestedHandleTypes));
  WARPLINE_TRY(SessionError());
  uint64_t number;
  WARPLINE_TRY(ToCu(memory().Create(static_cast<uint32_t>(prop->location.id), size,
                                    prop->requestedHandleTypes, &number)));
  *handle = number;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  return ToCu(memory().Release(handle));
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  WARPLINE_TRY(EnterInitialized());
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number;
  WARPLINE_TRY(ToCu(memory().Retain(reinterpret_cast<uint64_t>(addr), &number)));
  *handle = number;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                        CUmemGenericAllocationHandle handle) {
  WARPLINE_TRY(EnterInitialized());
  uint64_t handle_types;
  if (prop == nullptr || !memory().FindHandle(handle, &handle_types)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *prop = {};
  prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop->location.id = static_cast<int>(warpline::DeviceOfHandle(handle));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // A part of a handle cannot be mapped.
  if (offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return ToCu(memory().Map(ptr, size, handle));
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  return ToCu(memory().Unmap(ptr, size));
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                size_t count) {
  WARPLINE_TRY(EnterInitialized());
  if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (!IsDevice(desc[i].location) || !KnownAccess(desc[i].flags)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  WARPLINE_TRY(SessionError());
  // Where several entries name one device, the last one holds.
  for (size_t i = 0; i < count; ++i) {
    WARPLINE_TRY(ToCu(
        memory().SetAccess(ptr, size, static_cast<uint32_t>(desc[i].location.id), desc[i].flags)));
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                CUdeviceptr ptr) {
  WARPLINE_TRY(EnterInitialized());
  VirtualMemory::Mapping mapping;
  if (flags == nullptr || location == nullptr || !IsDevice(*location) ||
      !memory().Find(ptr, &mapping)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = mapping.access[location->id];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  uint64_t handle_types;
  if (shareableHandle == nullptr || flags != 0 ||
      handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !memory().FindHandle(handle, &handle_types) || (handle_types & handleType) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(SessionError());
  WARPLINE_TRY(BeginSharing());
  warpline::UniqueFd descriptor;
  WARPLINE_TRY(ToCu(memory().Export(handle, &descriptor)));
  *static_cast<int*>(shareableHandle) = descriptor.Release();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* osHandle,
                                                CUmemAllocationHandleType shHandleType) {
  WARPLINE_TRY(EnterInitialized());
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  WARPLINE_TRY(SessionError());
  WARPLINE_TRY(BeginSharing());
  uint64_t number;
  const auto descriptor = static_cast<int>(reinterpret_cast<intptr_t>(osHandle));
  WARPLINE_TRY(ToCu(memory().Import(descriptor, &number)));
  *handle = number;
  return CUDA_SUCCESS;
}

// Maps memory of sparse arrays and textures, of which there are none.
CUresult CUDAAPI cuMemMapArrayAsync(CUarrayMapInfo* mapInfoList, unsigned int count, CUstream) {
  return RefuseArrays(mapInfoList, count);
}
CUresult CUDAAPI cuMemMapArrayAsync_ptsz(CUarrayMapInfo* mapInfoList, unsigned int count,
                                         CUstream) {
  return RefuseArrays(mapInfoList, count);
}

// Asks for a handle that another device's driver on this host could use. There is none.
CUresult CUDAAPI cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size,
                                               CUmemRangeHandleType, unsigned long long) {
  WARPLINE_TRY(EnterInitialized());
  return handle == nullptr || dptr == 0 || size == 0 ? CUDA_ERROR_INVALID_VALUE
                                                     : CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
