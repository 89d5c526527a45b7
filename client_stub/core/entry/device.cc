// The session's devices, as the server described them when the session was opened.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "client_stub/core/runtime/runtime.h"
#include "common/mutex.h"
#include "proto/wire.h"

using namespace warpline::stub;

namespace {

// Abilities that the device may have but this driver cannot pass on. Host and device do not access
// memory at the same time, or execute the same functions. There is no host memory in pools and
// under handles. Nothing is shared with other kinds of devices: a NIC of the application's host
// does not reach memory on the server's.
constexpr CUdevice_attribute kWithheld[] = {
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
    CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
    // Device memory that is a NUMA node of the host's.
    CU_DEVICE_ATTRIBUTE_NUMA_CONFIG,
    CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
};

// The guarded tier lacks these. Programs that ask have other ways, and such that do not ask get the
// calls' errors. A kernel that waits for all blocks by cooperative groups reads registers that no
// guarded kernel may read.
constexpr CUdevice_attribute kNotGuarded[] = {
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
};

int Attribute(const Device& device, int id) {
  if (absl::c_linear_search(kWithheld, id)) return 0;
  if (runtime().tier_watch != nullptr && absl::c_linear_search(kNotGuarded, id)) return 0;
  switch (id) {
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // The nodes of the server's host say nothing of this one's. CUDA has -1 for none.
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return -1;
    default:
      return device.attribute(id);
  }
}

// The callbacks for notifications that an application has registered. CUDA's only notification
// tells that a process has more memory than its budget. A session's budget is fixed when it opens
// and the server grants no more, so none is ever called. Thread-safe.
class Notifications {
 public:
  // Returns the handle of another callback of the device.
  uint64_t Add(CUdevice device) {
    warpline::MutexLock lock(&mu_);
    devices_[++last_] = device;
    return last_;
  }
  bool Remove(CUdevice device, uint64_t handle) {
    warpline::MutexLock lock(&mu_);
    const auto it = devices_.find(handle);
    if (it == devices_.end() || it->second != device) return false;
    devices_.erase(it);
    return true;
  }

 private:
  warpline::Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, CUdevice> devices_ ABSL_GUARDED_BY(mu_);  // By handle.
};

Notifications& notifications() {
  static Notifications* const kept = new Notifications;
  return *kept;
}

CUresult EnterDevice(CUdevice device) {
  WARPLINE_TRY(EnterInitialized());
  return CheckDevice(device);
}

// Made from the attributes, because the runtime compares the two.
std::string PciBusId(const Device& device) {
  return absl::StrFormat("%04x:%02x:%02x.0", device.attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                         device.attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                         device.attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

// Copies like strncpy, but always with a final 0: CUDA cuts a text that is too long.
void CopyText(const std::string& text, char* to, int size) {
  const size_t length = std::min(text.size(), static_cast<size_t>(size) - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  WARPLINE_TRY(EnterInitialized());
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(runtime().device_count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  WARPLINE_TRY(EnterInitialized());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckDevice(ordinal));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  CopyText(runtime().devices[dev].remote->name, name, len);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, runtime().devices[dev].remote->uuid.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = runtime().devices[dev].remote->ShownBytes();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  // The runtime library gives up when any attribute that it asks for is refused.
  if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pi = Attribute(runtime().devices[dev], attrib);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = runtime().devices[dev].attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = runtime().devices[dev].attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (pciBusId == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  CopyText(PciBusId(runtime().devices[dev]), pciBusId, len);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  WARPLINE_TRY(EnterInitialized());
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Accepts "domain:bus:device.function", also without function or without domain.
  const absl::string_view asked = pciBusId;
  for (uint32_t i = 0; i < runtime().device_count; ++i) {
    const std::string full = PciBusId(runtime().devices[i]);
    const std::string without_function = full.substr(0, full.size() - 2);
    const bool same = absl::EqualsIgnoreCase(asked, full) ||
                      absl::EqualsIgnoreCase(asked, without_function) ||
                      absl::EqualsIgnoreCase(absl::StrCat("0000:", asked), full) ||
                      absl::EqualsIgnoreCase(absl::StrCat("0000:", asked), without_function);
    if (!same) continue;
    *dev = static_cast<CUdevice>(i);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

// No device is a peer of itself.
CUresult CUDAAPI cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  WARPLINE_TRY(EnterDevice(dev));
  WARPLINE_TRY(CheckDevice(peerDev));
  if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *canAccessPeer = runtime().devices[dev].can_access(runtime().devices[peerDev]) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice, CUdevice dstDevice) {
  WARPLINE_TRY(EnterDevice(srcDevice));
  WARPLINE_TRY(CheckDevice(dstDevice));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // CUDA refuses to compare a device with itself.
  if (srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      *value = runtime().devices[srcDevice].can_access(runtime().devices[dstDevice]) ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      // The server does not tell this, and programs do without.
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device& device = runtime().devices[dev];
  prop->maxThreadsPerBlock = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->sharedMemPerBlock = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = device.attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = device.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = device.attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = device.attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements,
                                                    CUarray_format format, unsigned numChannels,
                                                    CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (maxWidthInElements == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string reply;
  const warpline::cmd::LinearTextureWidth command = {static_cast<uint32_t>(format), numChannels,
                                                     static_cast<uint32_t>(dev), 0};
  WARPLINE_TRY(ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, {}, &reply)));
  std::string_view rest = reply;
  warpline::cmd::LinearTextureWidthReply found;
  if (!warpline::TakeStruct(&rest, &found)) return CUDA_ERROR_UNKNOWN;
  *maxWidthInElements = found.elements;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                   void* /*userData*/,
                                                   CUasyncCallbackHandle* callback) {
  WARPLINE_TRY(EnterDevice(device));
  if (callbackFunc == nullptr || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *callback = HandleOf<CUasyncCallbackHandle>(notifications().Add(device));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(CUdevice device,
                                                     CUasyncCallbackHandle callback) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterDevice(device));
  return notifications().Remove(device, NumberOf(callback)) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}

// A context may not be limited to a part of the device.
CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (pi == nullptr || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pi = 0;
  return CUDA_SUCCESS;
}

// Host and device share no memory that an atomic operation could work on.
CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities,
                                                   const CUatomicOperation* operations,
                                                   unsigned int count, CUdevice dev) {
  WARPLINE_TRY(EnterDevice(dev));
  if (capabilities == nullptr || operations == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::fill_n(capabilities, count, 0);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities,
                                                  const CUatomicOperation* operations,
                                                  unsigned int count, CUdevice srcDevice,
                                                  CUdevice dstDevice) {
  WARPLINE_TRY(EnterDevice(srcDevice));
  WARPLINE_TRY(CheckDevice(dstDevice));
  if (capabilities == nullptr || operations == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // cuDeviceGetP2PAttribute refuses this, too.
  if (srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
  std::fill_n(capabilities, count, 0);
  return CUDA_SUCCESS;
}

}  // extern "C"
