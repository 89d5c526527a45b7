// Work that crosses devices. It needs two, and says so where there is one. Where the second cannot
// reach the first, the sections that need it are left out.
#include <cstring>
#include <vector>

#include "setting.h"

namespace conformance {
namespace {

constexpr unsigned kWords = 4096;
constexpr size_t kBytes = kWords * sizeof(unsigned);

CUcontext g_contexts[2];
bool g_peers = false;

bool Use(int device) {
  Mark("cuCtxSetCurrent", "setup");
  return Setup(CU(cuCtxSetCurrent)(g_contexts[device]));
}

// Retains both primary contexts and makes the first one current. Returns false, without a FAIL
// line, when there is one device.
bool BeginBoth() {
  int count = 0;
  if (!Begin()) return false;
  Mark("cuDeviceGetCount", "setup");
  if (!Setup(CU(cuDeviceGetCount)(&count))) return false;
  if (count < 2) {
    HOLDS(cuDeviceGetCount, "one device: nothing crosses", count == 1, "none");
    return false;
  }
  for (int device = 0; device < 2; ++device) {
    Mark("cuDevicePrimaryCtxRetain", "setup");
    if (!Setup(CU(cuDevicePrimaryCtxRetain)(&g_contexts[device], device))) return false;
  }
  int first = 0, second = 0;
  Mark("cuDeviceCanAccessPeer", "setup");
  if (!Setup(CU(cuDeviceCanAccessPeer)(&first, 0, 1)) ||
      !Setup(CU(cuDeviceCanAccessPeer)(&second, 1, 0))) {
    return false;
  }
  g_peers = first == 1 && second == 1;
  return Use(0);
}

CUdeviceptr Memory(int device, size_t bytes = kBytes) {
  CUdeviceptr memory = 0;
  if (!Use(device)) return 0;
  Mark("cuMemAlloc", "setup");
  Setup(CU(cuMemAlloc)(&memory, bytes));
  return memory;
}

// Sets word i to first + i.
void Write(CUdeviceptr memory, unsigned first) {
  std::vector<unsigned> words(kWords);
  for (unsigned i = 0; i < kWords; ++i) words[i] = first + i;
  SETUP(cuMemcpyHtoD, memory, words.data(), kBytes);
}

// Checks that word i is a * (first + i) + b.
void Check(const char* call, const char* check, CUdeviceptr memory, unsigned first, unsigned a = 1,
           unsigned b = 0) {
  std::vector<unsigned> words(kWords);
  SETUP(cuMemcpyDtoH, words.data(), memory, kBytes);
  unsigned wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) wrong += words[i] != a * (first + i) + b ? 1 : 0;
  Holds(call, check, wrong == 0, "%u of %u words are wrong", wrong, kWords);
}

// out[i] = a * in[i] + b.
CUresult Affine(CUfunction function, CUstream stream, CUdeviceptr out, CUdeviceptr in, unsigned a,
                unsigned b) {
  unsigned n = kWords;
  void* parameters[] = {&out, &in, &a, &b, &n};
  return CU(cuLaunchKernel)(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters,
                            nullptr);
}

bool AffineOn(int device, CUfunction* function) {
  CUmodule module = nullptr;
  return Use(device) && LoadModule(&module) && Kernel(function, module, "affine");
}

void Descriptions() {
  if (!BeginBoth()) return;
  int count = 0;
  SETUP(cuDeviceGetCount, &count);
  CUuuid uuid[2];
  char bus[2][64] = {};
  for (int i = 0; i < 2; ++i) {
    CUdevice device = -1;
    CALL("each", CUDA_SUCCESS, cuDeviceGet, &device, i);
    EQUAL(cuDeviceGet, "is its ordinal", device, i);
    CALL("each", CUDA_SUCCESS, cuDeviceGetUuid, &uuid[i], device);
    CALL("each", CUDA_SUCCESS, cuDeviceGetPCIBusId, bus[i], sizeof(bus[i]), device);
    CALL("each", CUDA_SUCCESS, cuDeviceGetByPCIBusId, &device, bus[i]);
    EQUAL(cuDeviceGetByPCIBusId, "is the device", device, i);
  }
  HOLDS(cuDeviceGetUuid, "differs", std::memcmp(&uuid[0], &uuid[1], sizeof(uuid[0])) != 0,
        "is the same");
  HOLDS(cuDeviceGetPCIBusId, "differs", std::strcmp(bus[0], bus[1]) != 0, "is %s for both", bus[0]);
  CUdevice device;
  CALL("beyond the last", CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, count);
  int value = 0, can = 0;
  CALL("beyond the last", CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer, &can, 0, count);
  SETUP(cuDeviceCanAccessPeer, &can, 0, 1);
  CALL("access", CUDA_SUCCESS, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1);
  EQUAL(cuDeviceGetP2PAttribute, "is what cuDeviceCanAccessPeer says", value, can);
  CALL("native atomics", CUDA_SUCCESS, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1);
  CALL("rank", CUDA_SUCCESS, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1);
  CALL("no such attribute", CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute, &value,
       static_cast<CUdevice_P2PAttribute>(4711), 0, 1);
}

void Ownership() {
  if (!BeginBoth()) return;
  for (int device = 0; device < 2; ++device) {
    const CUdeviceptr memory = Memory(device);
    CUdevice current = -1;
    CALL("each", CUDA_SUCCESS, cuCtxGetDevice, &current);
    EQUAL(cuCtxGetDevice, "is the context's", current, device);
    int ordinal = -1;
    CALL("ordinal", CUDA_SUCCESS, cuPointerGetAttribute, &ordinal,
         CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory);
    EQUAL(cuPointerGetAttribute, "ordinal of its device", ordinal, device);
    CUcontext context = nullptr;
    CALL("context", CUDA_SUCCESS, cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT,
         memory);
    HOLDS(cuPointerGetAttribute, "context of its device", context == g_contexts[device], "another");
    CUstream stream = nullptr;
    SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (!Use(1 - device)) return;
    CALL("current context of the other device", CUDA_SUCCESS, cuStreamGetCtx, stream, &context);
    HOLDS(cuStreamGetCtx, "is its device's", context == g_contexts[device], "another");
    CALL("memory of the other device", CUDA_SUCCESS, cuMemFree, memory);
    CALL("stream of the other device", CUDA_SUCCESS, cuStreamDestroy, stream);
  }
}

void PeerAccess() {
  if (!BeginBoth()) return;
  CALL("not enabled", CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, g_contexts[1]);
  if (!g_peers) {
    CALL("no peer", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, g_contexts[1], 0);
    return;
  }
  CALL("flags", CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess, g_contexts[1], 1);
  CALL("no context", CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess, nullptr, 0);
  CALL("a peer", CUDA_SUCCESS, cuCtxEnablePeerAccess, g_contexts[1], 0);
  CALL("twice", CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess, g_contexts[1], 0);
  // A kernel on the first device reads the second one's memory.
  CUfunction affine = nullptr;
  if (!AffineOn(0, &affine)) return;
  const CUdeviceptr here = Memory(0), there = Memory(1);
  Write(there, 100);
  if (!Use(0)) return;
  Mark("cuLaunchKernel", "reads a peer's memory");
  Judge(CUDA_SUCCESS, Affine(affine, nullptr, here, there, 3, 4));
  CALL("after it", CUDA_SUCCESS, cuCtxSynchronize);
  Check("cuCtxEnablePeerAccess", "a kernel reads the peer's memory", here, 100, 3, 4);
  Mark("cuLaunchKernel", "writes a peer's memory");
  Judge(CUDA_SUCCESS, Affine(affine, nullptr, there, here, 1, 1));
  CALL("after it", CUDA_SUCCESS, cuCtxSynchronize);
  Check("cuCtxEnablePeerAccess", "a kernel writes the peer's memory", there, 100, 3, 5);
  CALL("enabled", CUDA_SUCCESS, cuCtxDisablePeerAccess, g_contexts[1]);
  CALL("twice", CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, g_contexts[1]);
}

void Copies() {
  if (!BeginBoth()) return;
  const CUdeviceptr here = Memory(0), there = Memory(1);
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  Write(there, 1);
  if (!Use(0)) return;
  CALL("from the second", CUDA_SUCCESS, cuMemcpyPeer, here, g_contexts[0], there, g_contexts[1],
       kBytes);
  Check("cuMemcpyPeer", "copies", here, 1);
  Write(here, 2);
  CALL("to the second, on its stream", CUDA_SUCCESS, cuMemcpyPeerAsync, there, g_contexts[1], here,
       g_contexts[0], kBytes, stream);
  CALL("of the other device", CUDA_SUCCESS, cuStreamSynchronize, stream);
  Check("cuMemcpyPeerAsync", "copies", there, 2);
  Write(there, 3);
  CALL("between devices", CUDA_SUCCESS, cuMemcpy, here, there, kBytes);
  Check("cuMemcpy", "between devices", here, 3);
  CUDA_MEMCPY3D_PEER box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = here;
  box.dstDevice = there;
  box.srcContext = g_contexts[0];
  box.dstContext = g_contexts[1];
  box.srcPitch = box.dstPitch = 256;
  box.srcHeight = box.dstHeight = kBytes / 256 / 2;
  box.WidthInBytes = 256;
  box.Height = kBytes / 256 / 2;
  box.Depth = 2;
  Write(here, 4);
  CALL("between devices", CUDA_SUCCESS, cuMemcpy3DPeer, &box);
  Check("cuMemcpy3DPeer", "copies", there, 4);
  Write(here, 5);
  CALL("between devices", CUDA_SUCCESS, cuMemcpy3DPeerAsync, &box, stream);
  CALL("after it", CUDA_SUCCESS, cuStreamSynchronize, stream);
  Check("cuMemcpy3DPeerAsync", "copies", there, 5);
  // A copy from the host goes to the device that the address names.
  if (!Use(0)) return;
  Write(there, 6);
  Check("cuMemcpyDtoH", "from a device that is not current", there, 6);
  CALL("memory of the other device", CUDA_SUCCESS, cuMemsetD32Async, there, 7, kWords, stream);
  CALL("after it", CUDA_SUCCESS, cuStreamSynchronize, stream);
  Check("cuMemsetD32Async", "on the other device", there, 0, 0, 7);
}

void Streams() {
  if (!BeginBoth()) return;
  CUfunction affine[2];
  CUstream streams[2];
  CUevent events[2], unrecorded;
  CUdeviceptr memory[2];
  for (int device = 0; device < 2; ++device) {
    if (!AffineOn(device, &affine[device])) return;
    memory[device] = Memory(device);
    SETUP(cuStreamCreate, &streams[device], CU_STREAM_NON_BLOCKING);
    SETUP(cuEventCreate, &events[device], CU_EVENT_DEFAULT);
  }
  SETUP(cuEventCreate, &unrecorded, CU_EVENT_DEFAULT);
  Write(memory[0], 10);
  CALL("stream of another device", CUDA_ERROR_INVALID_HANDLE, cuEventRecord, events[0], streams[1]);
  Mark("cuLaunchKernel", "stream of another device");
  Judge(CUDA_ERROR_INVALID_HANDLE, Affine(affine[0], streams[1], memory[1], memory[1], 1, 0));
  // A chain over both devices.
  Mark("cuLaunchKernel", "another device is current");
  Judge(CUDA_SUCCESS, Affine(affine[0], streams[0], memory[0], memory[0], 2, 0));
  CALL("on its device", CUDA_SUCCESS, cuEventRecord, events[0], streams[0]);
  CALL("event of another device", CUDA_SUCCESS, cuStreamWaitEvent, streams[1], events[0], 0);
  CALL("after an event of another device", CUDA_SUCCESS, cuMemcpyPeerAsync, memory[1],
       g_contexts[1], memory[0], g_contexts[0], kBytes, streams[1]);
  SETUP(cuEventRecord, events[1], streams[1]);
  SETUP(cuStreamWaitEvent, streams[0], events[1], 0);
  Mark("cuLaunchKernel", "after an event of another device");
  Judge(CUDA_SUCCESS, Affine(affine[0], streams[0], memory[0], memory[0], 1, 1));
  CALL("of another device", CUDA_SUCCESS, cuEventSynchronize, events[1]);
  CALL("each", CUDA_SUCCESS, cuStreamSynchronize, streams[0]);
  Check("cuStreamWaitEvent", "orders devices", memory[1], 10, 2);
  Check("cuStreamWaitEvent", "and back", memory[0], 10, 2, 1);
  float milliseconds;
  CALL("of two devices", CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &milliseconds, events[0],
       events[1]);
  for (int device = 0; device < 2; ++device) {
    if (!Use(device)) return;
    CALL("each", CUDA_SUCCESS, cuCtxSynchronize);
  }
}

void Libraries() {
  if (!BeginBoth()) return;
  const std::vector<char> image = Image("ptx/kernels.ptx");
  if (image.empty()) return;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  SETUP(cuLibraryLoadData, &library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  CALL("a kernel", CUDA_SUCCESS, cuLibraryGetKernel, &kernel, library, "affine");
  CUfunction functions[2];
  CUmodule modules[2];
  CUdeviceptr variables[2];
  for (int device = 0; device < 2; ++device) {
    const CUdeviceptr memory = Memory(device);
    Write(memory, 5);
    Mark("cuLaunchKernel", "a library's kernel on each device");
    Judge(CUDA_SUCCESS,
          Affine(reinterpret_cast<CUfunction>(kernel), nullptr, memory, memory, 2, 1));
    CALL("each", CUDA_SUCCESS, cuCtxSynchronize);
    Check("cuLaunchKernel", "a library's kernel runs where the stream is", memory, 5, 2, 1);
    CALL("each device", CUDA_SUCCESS, cuKernelGetFunction, &functions[device], kernel);
    CALL("each device", CUDA_SUCCESS, cuLibraryGetModule, &modules[device], library);
    size_t bytes = 0;
    CALL("each device", CUDA_SUCCESS, cuLibraryGetGlobal, &variables[device], &bytes, library,
         "step");
    const unsigned step = 70 + device;
    SETUP(cuMemcpyHtoD, variables[device], &step, sizeof(step));
    int registers = 0;
    CALL("each device", CUDA_SUCCESS, cuKernelGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS,
         kernel, device);
  }
  HOLDS(cuLibraryGetModule, "differs", modules[0] != modules[1], "is the same");
  HOLDS(cuKernelGetFunction, "differs", functions[0] != functions[1], "is the same");
  for (unsigned device = 0; device < 2; ++device) {
    unsigned step = 0;
    SETUP(cuMemcpyDtoH, &step, variables[device], sizeof(step));
    EQUAL(cuLibraryGetGlobal, "a variable for each device", step, 70 + device);
  }
  CALL("with kernels on both", CUDA_SUCCESS, cuLibraryUnload, library);
}

void Pools() {
  if (!BeginBoth()) return;
  CUmemoryPool pools[2], pool = nullptr;
  for (int device = 0; device < 2; ++device) {
    CALL("each device", CUDA_SUCCESS, cuDeviceGetDefaultMemPool, &pools[device], device);
  }
  HOLDS(cuDeviceGetDefaultMemPool, "differs", pools[0] != pools[1], "is the same");
  CALL("pool of another device", CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool, 0, pools[1]);
  CALL("each device", CUDA_SUCCESS, cuDeviceGetMemPool, &pool, 1);
  HOLDS(cuDeviceGetMemPool, "is its default at first", pool == pools[1], "another");
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = 0;
  CUmemAccess_flags flags;
  CALL("of a peer", CUDA_SUCCESS, cuMemPoolGetAccess, &flags, pools[1], &location);
  EQUAL(cuMemPoolGetAccess, "a peer has none at first", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  if (!g_peers) return;
  CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CALL("for a peer", CUDA_SUCCESS, cuMemPoolSetAccess, pools[1], &access, 1);
  SETUP(cuMemPoolGetAccess, &flags, pools[1], &location);
  EQUAL(cuMemPoolGetAccess, "what a peer was given", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUfunction affine = nullptr;
  if (!AffineOn(0, &affine)) return;
  const CUdeviceptr here = Memory(0);
  if (!Use(1)) return;
  CUdeviceptr there = 0;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  if (!Use(0)) return;
  CALL("on a stream of the other device", CUDA_SUCCESS, cuMemAllocAsync, &there, kBytes, stream);
  SETUP(cuStreamSynchronize, stream);
  int ordinal = -1;
  SETUP(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there);
  EQUAL(cuMemAllocAsync, "is of the stream's device", ordinal, 1);
  Write(there, 40);
  Mark("cuLaunchKernel", "reads memory of a peer's pool");
  Judge(CUDA_SUCCESS, Affine(affine, nullptr, here, there, 1, 2));
  SETUP(cuCtxSynchronize);
  Check("cuMemPoolSetAccess", "a kernel reads memory of the peer's pool", here, 40, 1, 2);
  CALL("on its stream", CUDA_SUCCESS, cuMemFreeAsync, there, stream);
  SETUP(cuStreamSynchronize, stream);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CALL("taken back", CUDA_SUCCESS, cuMemPoolSetAccess, pools[1], &access, 1);
}

void Mapped() {
  if (!BeginBoth() || !g_peers) return;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 1;
  size_t granule = 0;
  CALL("of the second device", CUDA_SUCCESS, cuMemGetAllocationGranularity, &granule, &properties,
       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemGenericAllocationHandle handle = 0;
  CALL("of the second device", CUDA_SUCCESS, cuMemCreate, &handle, granule, &properties, 0);
  CUmemAllocationProp told = {};
  CALL("of the second device", CUDA_SUCCESS, cuMemGetAllocationPropertiesFromHandle, &told, handle);
  EQUAL(cuMemGetAllocationPropertiesFromHandle, "location", told.location.id, 1);
  CUdeviceptr there = 0;
  SETUP(cuMemAddressReserve, &there, granule, 0, 0, 0);
  SETUP(cuMemMap, there, granule, 0, handle, 0);
  CUmemAccessDesc access[2] = {};
  for (int device = 0; device < 2; ++device) {
    access[device].location = properties.location;
    access[device].location.id = device;
    access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CALL("of the second device only", CUDA_SUCCESS, cuMemSetAccess, there, granule, &access[1], 1);
  unsigned long long flags = 99;
  CALL("of the first device", CUDA_SUCCESS, cuMemGetAccess, &flags, &access[0].location, there);
  EQUAL(cuMemGetAccess, "the first device has none", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CALL("of both", CUDA_SUCCESS, cuMemSetAccess, there, granule, access, 2);
  CALL("of the first device", CUDA_SUCCESS, cuMemGetAccess, &flags, &access[0].location, there);
  EQUAL(cuMemGetAccess, "both have it", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUfunction affine = nullptr;
  if (!AffineOn(0, &affine)) return;
  const CUdeviceptr here = Memory(0);
  Write(there, 60);
  Mark("cuLaunchKernel", "reads a peer's mapped memory");
  Judge(CUDA_SUCCESS, Affine(affine, nullptr, here, there, 1, 3));
  SETUP(cuCtxSynchronize);
  Check("cuMemSetAccess", "a kernel reads a peer's mapped memory", here, 60, 1, 3);
  CALL("mapped for both", CUDA_SUCCESS, cuMemUnmap, there, granule);
  CALL("of the second device", CUDA_SUCCESS, cuMemRelease, handle);
  CALL("mapped for both before", CUDA_SUCCESS, cuMemAddressFree, there, granule);
}

void Managed() {
  if (!BeginBoth()) return;
  CUfunction affine[2];
  for (int device = 0; device < 2; ++device) {
    if (!AffineOn(device, &affine[device])) return;
  }
  CUdeviceptr managed = 0;
  SETUP(cuMemAllocManaged, &managed, kBytes, CU_MEM_ATTACH_GLOBAL);
  auto* words = reinterpret_cast<unsigned*>(managed);
  for (unsigned i = 0; i < kWords; ++i) words[i] = 80 + i;
  for (int device = 0; device < 2; ++device) {
    if (!Use(device)) return;
    Mark("cuLaunchKernel", "managed memory on each device");
    Judge(CUDA_SUCCESS, Affine(affine[device], nullptr, managed, managed, 1, 1));
    SETUP(cuCtxSynchronize);
  }
  unsigned wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) wrong += words[i] != 82 + i ? 1 : 0;
  HOLDS(cuMemAllocManaged, "both devices and the host use it", wrong == 0, "%u words are wrong",
        wrong);
}

void Graphs() {
  if (!BeginBoth()) return;
  CUfunction affine[2];
  CUstream streams[2];
  CUevent fork, join;
  CUdeviceptr memory[2];
  for (int device = 0; device < 2; ++device) {
    if (!AffineOn(device, &affine[device])) return;
    memory[device] = Memory(device);
    SETUP(cuStreamCreate, &streams[device], CU_STREAM_NON_BLOCKING);
    SETUP(cuEventCreate, device == 0 ? &fork : &join, CU_EVENT_DISABLE_TIMING);
    Write(memory[device], 0);
  }
  if (!Use(0)) return;
  SETUP(cuStreamBeginCapture, streams[0], CU_STREAM_CAPTURE_MODE_RELAXED);
  Mark("cuLaunchKernel", "captured on the first device");
  Judge(CUDA_SUCCESS, Affine(affine[0], streams[0], memory[0], memory[0], 1, 1));
  SETUP(cuEventRecord, fork, streams[0]);
  CALL("a capture goes on on another device", CUDA_SUCCESS, cuStreamWaitEvent, streams[1], fork, 0);
  Mark("cuLaunchKernel", "captured on the second device");
  Judge(CUDA_SUCCESS, Affine(affine[1], streams[1], memory[1], memory[1], 1, 2));
  SETUP(cuEventRecord, join, streams[1]);
  SETUP(cuStreamWaitEvent, streams[0], join, 0);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CALL("of two devices", CUDA_SUCCESS, cuStreamEndCapture, streams[0], &graph);
  CALL("of two devices", CUDA_SUCCESS, cuGraphInstantiate, &exec, graph, 0);
  constexpr unsigned kLaunches = 3;
  for (unsigned i = 0; i < kLaunches; ++i) {
    CALL("of two devices", CUDA_SUCCESS, cuGraphLaunch, exec, streams[0]);
  }
  SETUP(cuStreamSynchronize, streams[0]);
  Check("cuGraphLaunch", "its nodes on the first device ran", memory[0], 0, 1, kLaunches);
  Check("cuGraphLaunch", "its nodes on the second device ran", memory[1], 0, 1, 2 * kLaunches);
  SETUP(cuGraphExecDestroy, exec);
  SETUP(cuGraphDestroy, graph);
}

void Reset() {
  if (!BeginBoth()) return;
  const CUdeviceptr here = Memory(0), there = Memory(1);
  CALL("one of two devices", CUDA_SUCCESS, cuDevicePrimaryCtxReset, 1);
  if (!Use(0)) return;
  Write(here, 3);
  Check("cuDevicePrimaryCtxReset", "leaves the other device", here, 3);
  CALL("memory of a device that was reset", CUDA_ERROR_INVALID_VALUE, cuMemFree, there);
  CALL("memory of the other", CUDA_SUCCESS, cuMemFree, here);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "several_devices",
             {{"descriptions", Descriptions},
              {"ownership", Ownership},
              {"peer_access", PeerAccess},
              {"copies", Copies},
              {"streams", Streams},
              {"libraries", Libraries},
              {"pools", Pools},
              {"mapped", Mapped},
              {"managed", Managed},
              {"graphs", Graphs},
              {"reset", Reset}});
}
