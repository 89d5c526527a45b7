#include "server/device/cuda/testing/fake_driver.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace warpline::device {
namespace {

FakeDriver* g_driver = nullptr;

std::string Hex(uint64_t address) { return absl::StrCat(absl::Hex(address)); }
std::string Hex(const void* address) { return Hex(reinterpret_cast<uint64_t>(address)); }

std::string Named(CUmemorytype type, uint64_t device, const void* host) {
  switch (type) {
    case CU_MEMORYTYPE_DEVICE:
      return absl::StrCat("device ", Hex(device));
    case CU_MEMORYTYPE_HOST:
      return absl::StrCat("host ", Hex(host));
    case CU_MEMORYTYPE_ARRAY:
      return "array";
    default:
      return "of any type";
  }
}

uint64_t Number(CUcontext context) { return reinterpret_cast<uint64_t>(context); }

// --- The functions of the driver.

void Note(const std::string& line) { g_driver->Note(line); }

CUresult DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult Retain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uint64_t>(device) + 100);
  return CUDA_SUCCESS;
}
CUresult Release(CUdevice) { return CUDA_SUCCESS; }
CUresult CanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 0;
  return CUDA_SUCCESS;
}
CUresult SetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult Reserve(CUdeviceptr* at, size_t, size_t, CUdeviceptr wanted, unsigned long long) {
  *at = wanted;
  return CUDA_SUCCESS;
}
CUresult Unreserve(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
CUresult HostRegister(void*, size_t, unsigned) { return CUDA_SUCCESS; }
CUresult HostUnregister(void*) { return CUDA_SUCCESS; }
CUresult HostDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult Attributes(unsigned count, CUpointer_attribute* attributes, void** answers,
                    CUdeviceptr address) {
  if (g_driver->fails()) return CUDA_ERROR_UNKNOWN;
  const FakeDriver::Range none = {0, static_cast<CUmemorytype>(0), false, -2};
  uint64_t start = 0;
  const FakeDriver::Range* const found = g_driver->RangeOf(address, &start);
  const FakeDriver::Range& range = found == nullptr ? none : *found;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(answers[i]) = range.type;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(answers[i]) = range.managed ? 1 : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(answers[i]) = range.ordinal;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(answers[i]) = start;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(answers[i]) = range.bytes;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult HtoD(CUdeviceptr to, const void* from, size_t, CUstream) {
  Note(absl::StrCat("HtoD ", Hex(to), " <- ", Hex(from)));
  return CUDA_SUCCESS;
}
CUresult DtoH(void* to, CUdeviceptr from, size_t, CUstream) {
  Note(absl::StrCat("DtoH ", Hex(to), " <- ", Hex(from)));
  return CUDA_SUCCESS;
}
CUresult DtoD(CUdeviceptr to, CUdeviceptr from, size_t, CUstream) {
  Note(absl::StrCat("DtoD ", Hex(to), " <- ", Hex(from)));
  return CUDA_SUCCESS;
}
CUresult Peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t, CUstream) {
  Note(absl::StrCat("Peer ", Hex(to), " of ", Number(to_context), " <- ", Hex(from), " of ",
                    Number(from_context)));
  return CUDA_SUCCESS;
}
CUresult Box(const CUDA_MEMCPY3D* copy, CUstream) {
  g_driver->NoteBox("Box", *copy);
  return CUDA_SUCCESS;
}
CUresult PeerBox(const CUDA_MEMCPY3D_PEER* copy, CUstream) {
  Note(absl::StrCat("PeerBox ", Named(copy->dstMemoryType, copy->dstDevice, copy->dstHost), " of ",
                    Number(copy->dstContext), " <- ",
                    Named(copy->srcMemoryType, copy->srcDevice, copy->srcHost), " of ",
                    Number(copy->srcContext)));
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult Fill(CUdeviceptr to, Value, size_t, CUstream) {
  Note(absl::StrCat("Fill ", Hex(to)));
  return CUDA_SUCCESS;
}
template <typename Value>
CUresult FillRows(CUdeviceptr to, size_t, Value, size_t, size_t, CUstream) {
  Note(absl::StrCat("FillRows ", Hex(to)));
  return CUDA_SUCCESS;
}
CUresult MemOps(CUstream, unsigned, CUstreamBatchMemOpParams* operations, unsigned) {
  Note(absl::StrCat("MemOps ", Hex(operations->writeValue.address)));
  return CUDA_SUCCESS;
}
CUresult StreamAttribute(CUstream, CUstreamAttrID, const CUstreamAttrValue*) {
  Note("StreamAttribute");
  return CUDA_SUCCESS;
}
CUresult CreateTexture(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                       const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
  *object = 1;
  // Linear and pitched memory begin with their address.
  Note(absl::StrCat("Texture ", Hex(resource->res.linear.devPtr)));
  return CUDA_SUCCESS;
}

CUresult CreateGraph(CUgraph* graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(uint64_t{1});
  return CUDA_SUCCESS;
}
CUresult DestroyGraph(CUgraph) { return CUDA_SUCCESS; }
CUresult Instantiate(CUgraphExec* graph, CUgraph, unsigned long long) {
  *graph = reinterpret_cast<CUgraphExec>(uint64_t{2});
  return CUDA_SUCCESS;
}
CUresult LaunchGraph(CUgraphExec, CUstream) {
  Note("GraphLaunch\n");
  return CUDA_SUCCESS;
}
CUresult DestroyGraphExec(CUgraphExec) { return CUDA_SUCCESS; }
CUresult AddMemset(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                   const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  Note(absl::StrCat("NodeFill ", Hex(params->dst)));
  return CUDA_SUCCESS;
}
CUresult AddMemcpy(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_MEMCPY3D* copy,
                   CUcontext) {
  g_driver->NoteBox("NodeBox", *copy);
  return CUDA_SUCCESS;
}
CUresult AddMemOps(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                   const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Note(absl::StrCat("NodeMemOps ", Hex(params->paramArray->writeValue.address)));
  return CUDA_SUCCESS;
}

}  // namespace

FakeDriver::FakeDriver() {
  g_driver = this;
  api_.p_cuDeviceGet = &DeviceGet;
  api_.p_cuDevicePrimaryCtxRetain = &Retain;
  api_.p_cuDevicePrimaryCtxRelease = &Release;
  api_.p_cuDeviceCanAccessPeer = &CanAccessPeer;
  api_.p_cuCtxSetCurrent = &SetCurrent;
  api_.p_cuMemAddressReserve = &Reserve;
  api_.p_cuMemAddressFree = &Unreserve;
  api_.p_cuMemHostRegister = &HostRegister;
  api_.p_cuMemHostUnregister = &HostUnregister;
  api_.p_cuMemHostGetDevicePointer = &HostDevicePointer;
  api_.p_cuPointerGetAttributes = &Attributes;
  api_.p_cuMemcpyHtoDAsync = &HtoD;
  api_.p_cuMemcpyDtoHAsync = &DtoH;
  api_.p_cuMemcpyDtoDAsync = &DtoD;
  api_.p_cuMemcpyPeerAsync = &Peer;
  api_.p_cuMemcpy3DAsync = &Box;
  api_.p_cuMemcpy3DPeerAsync = &PeerBox;
  api_.p_cuMemsetD8Async = &Fill<unsigned char>;
  api_.p_cuMemsetD16Async = &Fill<unsigned short>;
  api_.p_cuMemsetD32Async = &Fill<unsigned>;
  api_.p_cuMemsetD2D8Async = &FillRows<unsigned char>;
  api_.p_cuMemsetD2D16Async = &FillRows<unsigned short>;
  api_.p_cuMemsetD2D32Async = &FillRows<unsigned>;
  api_.p_cuStreamBatchMemOp = &MemOps;
  api_.p_cuStreamSetAttribute = &StreamAttribute;
  api_.p_cuTexObjectCreate = &CreateTexture;
  api_.p_cuGraphCreate = &CreateGraph;
  api_.p_cuGraphDestroy = &DestroyGraph;
  api_.p_cuGraphInstantiate = &Instantiate;
  api_.p_cuGraphLaunch = &LaunchGraph;
  api_.p_cuGraphExecDestroy = &DestroyGraphExec;
  api_.p_cuGraphAddMemsetNode = &AddMemset;
  api_.p_cuGraphAddMemcpyNode = &AddMemcpy;
  api_.p_cuGraphAddBatchMemOpNode = &AddMemOps;
}

FakeDriver::~FakeDriver() { g_driver = nullptr; }

const FakeDriver::Range* FakeDriver::RangeOf(uint64_t address, uint64_t* start) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  const auto& [at, range] = *std::prev(next);
  *start = at;
  return address - at < range.bytes ? &range : nullptr;
}

void FakeDriver::NoteBox(const char* call, const CUDA_MEMCPY3D& copy) {
  Note(absl::StrCat(call, " ", Named(copy.dstMemoryType, copy.dstDevice, copy.dstHost), " <- ",
                    Named(copy.srcMemoryType, copy.srcDevice, copy.srcHost)));
}

}  // namespace warpline::device
