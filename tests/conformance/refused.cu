// The families that are not there yet: natively they work; remotely each gives the documented
// error.
#include "setting.h"

namespace conformance {
namespace {

void Managed() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  if (REFUSED("64 KiB", CUDA_SUCCESS, cuMemAllocManaged, &memory, 65536, CU_MEM_ATTACH_GLOBAL)) {
    CALL("managed", CUDA_SUCCESS, cuStreamAttachMemAsync, nullptr, memory, 0, CU_MEM_ATTACH_GLOBAL);
    CALL("managed", CUDA_SUCCESS, cuMemFree, memory);
  }
}

void VirtualMemory() {
  if (!Begin()) return;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0;
  REFUSED("of device memory", CUDA_SUCCESS, cuMemGetAllocationGranularity, &granularity,
          &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  const size_t size = 2 << 20;
  if (REFUSED("2 MiB", CUDA_SUCCESS, cuMemAddressReserve, &address, size, 0, 0, 0)) {
    CALL("2 MiB", CUDA_SUCCESS, cuMemCreate, &handle, size, &properties, 0);
    CALL("2 MiB", CUDA_SUCCESS, cuMemMap, address, size, 0, handle, 0);
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CALL("2 MiB", CUDA_SUCCESS, cuMemSetAccess, address, size, &access, 1);
    CALL("2 MiB", CUDA_SUCCESS, cuMemUnmap, address, size);
    CALL("2 MiB", CUDA_SUCCESS, cuMemRelease, handle);
    CALL("2 MiB", CUDA_SUCCESS, cuMemAddressFree, address, size);
  } else {
    // Natively never reached: these work there, as above.
    CUmemAccessDesc access = {};
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemCreate, &handle, size, &properties, 0);
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemMap, address, size, 0, handle, 0);
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemSetAccess, address, size, &access, 1);
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemUnmap, address, size);
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemRelease, handle);
    REFUSED("2 MiB", CUDA_SUCCESS, cuMemAddressFree, address, size);
  }
}

void OtherProcesses() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  CUevent event = nullptr;
  SETUP(cuMemAlloc, &memory, 2 << 20);
  CUipcMemHandle handle = {};
  REFUSED("2 MiB", CUDA_SUCCESS, cuIpcGetMemHandle, &handle, memory);
  CUipcEventHandle event_handle = {};
  if (CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
    REFUSED("event", CUDA_SUCCESS, cuIpcGetEventHandle, &event_handle, event);
  }
  int can = 99, count = 0;
  CALL("of the device itself", CUDA_SUCCESS, cuDeviceCanAccessPeer, &can, 0, 0);
  EQUAL(cuDeviceCanAccessPeer, "a device is no peer of itself", can, 0);
  SETUP(cuDeviceGetCount, &count);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer, &can, 0, count);
  int value = 0;
  CALL("a device and itself", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, count);
  REFUSED("own context", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, g_context, 0);
}

void Others() {
  if (!Begin()) return;
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = -1;
  description.size = 4096;
  REFUSED("bad descriptor", CUDA_ERROR_UNKNOWN, cuImportExternalMemory, &memory, &description);
  CUdevResource resource = {};
  REFUSED("multiprocessors", CUDA_SUCCESS, cuDeviceGetDevResource, 0, &resource,
          CU_DEV_RESOURCE_TYPE_SM);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "refused",
             {{"managed", Managed},
              {"virtual_memory", VirtualMemory},
              {"other_processes", OtherProcesses},
              {"others", Others}});
}
