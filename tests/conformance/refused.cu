// The families that are not there yet: natively they work; remotely each gives the documented
// error.
#include "setting.h"

namespace conformance {
namespace {

void Graphs() {
  if (!Begin()) return;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  if (REFUSED("empty graph", CUDA_SUCCESS, cuGraphCreate, &graph, 0)) {
    CUgraphNode node = nullptr;
    CALL("empty node", CUDA_SUCCESS, cuGraphAddEmptyNode, &node, graph, nullptr, 0);
    CALL("one node", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &executable, graph, 0);
    CALL("one node", CUDA_SUCCESS, cuGraphLaunch, executable, stream);
    CALL("after a graph", CUDA_SUCCESS, cuStreamSynchronize, stream);
    CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, executable);
    CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
  }
  if (REFUSED("capture", CUDA_SUCCESS, cuStreamBeginCapture, stream,
              CU_STREAM_CAPTURE_MODE_GLOBAL)) {
    CALL("capture", CUDA_SUCCESS, cuStreamEndCapture, stream, &graph);
  }
  CALL("after it all", CUDA_SUCCESS, cuStreamSynchronize, stream);
}

void Arrays() {
  if (!Begin()) return;
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR flat = {};
  flat.Width = 64;
  flat.Height = 16;
  flat.Format = CU_AD_FORMAT_FLOAT;
  flat.NumChannels = 1;
  if (REFUSED("64 by 16", CUDA_SUCCESS, cuArrayCreate, &array, &flat)) {
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC texture = {};
    CUtexObject object = 0;
    if (CALL("of an array", CUDA_SUCCESS, cuTexObjectCreate, &object, &resource, &texture,
             nullptr)) {
      CALL("of an array", CUDA_SUCCESS, cuTexObjectDestroy, object);
    }
    CALL("64 by 16", CUDA_SUCCESS, cuArrayDestroy, array);
  }
  CUDA_ARRAY3D_DESCRIPTOR deep = {};
  deep.Width = deep.Height = deep.Depth = 16;
  deep.Format = CU_AD_FORMAT_FLOAT;
  deep.NumChannels = 1;
  if (REFUSED("16 by 16 by 16", CUDA_SUCCESS, cuArray3DCreate, &array, &deep)) {
    CALL("16 by 16 by 16", CUDA_SUCCESS, cuArrayDestroy, array);
  }
  CUmipmappedArray mipmapped = nullptr;
  if (REFUSED("2 levels", CUDA_SUCCESS, cuMipmappedArrayCreate, &mipmapped, &deep, 2)) {
    CALL("2 levels", CUDA_SUCCESS, cuMipmappedArrayDestroy, mipmapped);
  }
}

void Textures() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, 65536);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 65536;
  CUDA_TEXTURE_DESC texture = {};
  CUtexObject object = 0;
  if (REFUSED("of linear memory", CUDA_SUCCESS, cuTexObjectCreate, &object, &resource, &texture,
              nullptr)) {
    CALL("of linear memory", CUDA_SUCCESS, cuTexObjectDestroy, object);
  }
  alignas(64) CUtensorMap map = {};
  const cuuint64_t sizes[] = {64, 64}, strides[] = {256};
  const cuuint32_t box[] = {16, 16}, steps[] = {1, 1};
  REFUSED("64 by 64", CUDA_SUCCESS, cuTensorMapEncodeTiled, &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
          2, reinterpret_cast<void*>(memory), sizes, strides, box, steps,
          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
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
             {{"graphs", Graphs},
              {"arrays", Arrays},
              {"textures", Textures},
              {"virtual_memory", VirtualMemory},
              {"other_processes", OtherProcesses},
              {"others", Others}});
}
