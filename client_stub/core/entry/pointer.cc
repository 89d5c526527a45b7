// Attributes of addresses, answered from the tables of device and host memory.
#include <cstring>

#include "client_stub/core/context/peer_access.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/core/registered/registered_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

struct Pointer {
  uint64_t address = 0;
  bool device = false;
  bool host = false;
  DeviceMemory::Range device_range;
  HostMemory::Range host_range;
  bool managed = false;
  // The two addresses of memory that both sides access.
  uint64_t on_device = 0;
  uint64_t host_address = 0;
};

Pointer Describe(CUdeviceptr address) {
  Pointer pointer;
  pointer.address = address;
  MirroredMemory::Range mirrored;
  if (runtime().mirrored->any() && runtime().mirrored->Find(address, &mirrored)) {
    pointer.managed = mirrored.managed();
    pointer.on_device = runtime().mirrored->ToDevice(address);
    pointer.host_address =
        pointer.on_device == address ? mirrored.host + (address - mirrored.device) : address;
  }
  RegisteredMemory::Range registered;
  if (runtime().registered->Find(address, &registered)) {
    const bool host = address - registered.host < registered.bytes;
    const uint64_t offset = address - (host ? registered.host : registered.device);
    pointer.on_device = registered.device + offset;
    pointer.host_address = registered.host + offset;
  }
  // Mapped memory counts as the host's, managed memory as the device's.
  const auto* host =
      reinterpret_cast<const void*>(pointer.on_device != 0 ? pointer.host_address : address);
  if (!pointer.managed) pointer.host = runtime().host_memory->Find(host, &pointer.host_range);
  // Devices can have it at this address, and get it when they need it.
  const bool one_address = pointer.host_range.shared || pointer.host_range.in_arena;
  if (pointer.host && one_address) pointer.on_device = pointer.host_address = address;
  if (pointer.host) return pointer;
  if (!pointer.managed) runtime().memory->LearnBlock(address);
  pointer.device = runtime().memory->Find(address, &pointer.device_range);
  if (pointer.managed) {
    pointer.device = true;
    pointer.device_range.base = mirrored.host;
    pointer.device_range.bytes = mirrored.bytes;
    pointer.device_range.context = mirrored.context;
    if (mirrored.context != nullptr) pointer.device_range.device = mirrored.context->device->number;
  }
  return pointer;
}

template <typename T>
CUresult Give(void* data, T value) {
  // Of a pointer it is the pointer. NOLINTNEXTLINE(bugprone-sizeof-expression)
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

const Device& DeviceOf(const Pointer& pointer) {
  return runtime().devices[pointer.device ? pointer.device_range.device : pointer.host_range.owner];
}

const Context* OwnerOf(const Pointer& pointer) {
  const Context* owner = pointer.device_range.context;
  return owner != nullptr ? owner : DeviceOf(pointer).primary;
}

// Returns the access of the current context's device. CUmemAccess_flags and the flags of pointers
// have the same values.
unsigned int AccessOf(const Pointer& pointer) {
  const Device& device = CurrentDevice();
  const DeviceMemory::Range& range = pointer.device_range;
  if (!pointer.device || pointer.managed) return VirtualMemory::kReadWrite;
  if (range.mapped) return range.access[device.number];
  if (range.device == device.number) return VirtualMemory::kReadWrite;
  const bool given = range.pool != nullptr ? range.pool->AccessibleTo(device)
                                           : t_thread.current != nullptr &&
                                                 HasPeerAccess(CurrentOwner(), OwnerOf(pointer));
  return given ? VirtualMemory::kReadWrite : VirtualMemory::kNoAccess;
}

// Gives the attributes of an address that is in one of the tables. An attribute that cuda.h calls a
// boolean takes four bytes, as in NVIDIA's driver.
CUresult GiveAttribute(const Pointer& pointer, CUpointer_attribute attribute, void* data) {
  const bool device = pointer.device;
  const uint64_t base =
      device ? pointer.device_range.base : reinterpret_cast<uint64_t>(pointer.host_range.base);
  const uint64_t bytes = device ? pointer.device_range.bytes : pointer.host_range.bytes;
  const uint64_t id = device ? pointer.device_range.id << 1 : pointer.host_range.id << 1 | 1;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Give(data, OwnerOf(pointer)->handle);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give<unsigned int>(data, device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (pointer.on_device != 0) return Give<CUdeviceptr>(data, pointer.on_device);
      if (!device) return CUDA_ERROR_INVALID_VALUE;
      return Give<CUdeviceptr>(data, pointer.address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (pointer.on_device != 0) return Give<uint64_t>(data, pointer.host_address);
      if (!device) return Give<uint64_t>(data, pointer.address);
      Give<uint64_t>(data, 0);
      return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Give<unsigned>(data, device && pointer.device_range.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Give<unsigned>(data, pointer.managed ? 1 : 0);  // A word: libcudart reads four bytes.
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Give<unsigned int>(data, device && pointer.device_range.ipc_capable ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Give<unsigned int>(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Give<unsigned long long>(data, id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give<int>(data, static_cast<int>(DeviceOf(pointer).number));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Give<uint64_t>(data, base);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Give<uint64_t>(data, device ? pointer.device_range.mapping_base : base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Give<size_t>(data, bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Give<size_t>(data, device ? pointer.device_range.mapping_bytes : bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Give<unsigned int>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Give<unsigned long long>(data, device ? pointer.device_range.handle_types : 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Give<unsigned int>(data, AccessOf(pointer));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Give<CUmemoryPool>(
          data, pointer.device_range.pool != nullptr ? pointer.device_range.pool->handle : nullptr);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Gives the values that cuPointerGetAttributes has for addresses without an answer.
CUresult GiveNothing(CUdeviceptr address, bool known, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return Give<uint64_t>(data, known ? 0 : address);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return CUDA_SUCCESS;  // The outputs stay as they are.
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give<int>(data, -2);  // CUDA's value for no device.
    // All are words: libcudart reads four bytes.
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Give<unsigned int>(data, 0);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return Give(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{});
    default:
      return Give<uint64_t>(data, 0);
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  WARPLINE_TRY(EnterInitialized());
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Pointer pointer = Describe(ptr);
  if (!pointer.device && !pointer.host) return CUDA_ERROR_INVALID_VALUE;
  return GiveAttribute(pointer, attribute, data);
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr ptr) {
  WARPLINE_TRY(Enter());
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  unsigned int flag;
  std::memcpy(&flag, value, sizeof(flag));
  if (!runtime().memory->SetSyncMemops(ptr, flag != 0)) return CUDA_ERROR_INVALID_VALUE;
  // Work that was asked for before is complete once the attribute holds.
  return flag != 0 ? SynchronizeSession() : CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                        void** data, CUdeviceptr ptr) {
  WARPLINE_TRY(EnterInitialized());
  if (numAttributes == 0 || attributes == nullptr || data == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Pointer pointer = Describe(ptr);
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (attributes[i] <= 0 || attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const bool known = pointer.device || pointer.host;
    if (!known || GiveAttribute(pointer, attributes[i], data[i]) != CUDA_SUCCESS) {
      GiveNothing(ptr, known, attributes[i], data[i]);
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
