// Calls by threads that have no current context: calls that name their object by a handle work as
// anywhere else, and calls that mean "the current context" report that there is none. Worker
// threads of OpenMP programs that call libraries are such threads.
#include <thread>

#include "setting.h"

namespace conformance {
namespace {

constexpr CUresult kNone = CUDA_ERROR_INVALID_CONTEXT;
constexpr size_t kBytes = 4096;

alignas(kBytes) char g_registered[kBytes];
alignas(kBytes) char g_other[kBytes];

// The objects that the thread with a context made.
struct Made {
  CUstream stream = nullptr;
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  CUfunction add_step = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUdeviceptr memory = 0;
  CUdeviceptr more = 0;
  void* pinned = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUarray array = nullptr;
  CUtexObject texture = 0;
  std::vector<char> image;
};

bool MakeTexture(Made* made) {
  const CUDA_ARRAY_DESCRIPTOR shape = {16, 0, CU_AD_FORMAT_FLOAT, 1};
  if (!Setup(CU(cuArrayCreate)(&made->array, &shape))) return false;
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = made->array;
  const CUDA_TEXTURE_DESC texture = {};
  // The CPU device has no textures.
  return on_cpu() || Setup(CU(cuTexObjectCreate)(&made->texture, &resource, &texture, nullptr));
}

bool Make(Made* made) {
  if (!Begin() || !LoadModule(&made->module) ||
      !Kernel(&made->add_step, made->module, "add_step")) {
    return false;
  }
  made->image = Image("ptx/kernels.ptx");
  Mark("cuStreamCreate", "setup");
  return Setup(CU(cuStreamCreate)(&made->stream, CU_STREAM_NON_BLOCKING)) &&
         Setup(CU(cuStreamCreate)(&made->other, CU_STREAM_DEFAULT)) &&
         Setup(CU(cuEventCreate)(&made->event, CU_EVENT_DEFAULT)) &&
         Setup(CU(cuLibraryLoadData)(&made->library, made->image.data(), nullptr, nullptr, 0,
                                     nullptr, nullptr, 0)) &&
         Setup(CU(cuLibraryGetKernel)(&made->kernel, made->library, "add_step")) &&
         Setup(CU(cuMemAlloc)(&made->memory, kBytes)) &&
         Setup(CU(cuMemAlloc)(&made->more, kBytes)) &&
         Setup(CU(cuMemHostAlloc)(&made->pinned, kBytes, 0)) &&
         Setup(CU(cuMemHostRegister)(g_registered, kBytes, 0)) &&
         Setup(CU(cuGraphCreate)(&made->graph, 0)) &&
         Setup(CU(cuGraphInstantiate)(&made->exec, made->graph, 0)) && MakeTexture(made) &&
         Setup(CU(cuCtxSynchronize)());
}

// Runs `check` on a thread that never had a context.
void Elsewhere(void (*check)(const Made&)) {
  Made made;
  if (!Make(&made)) return;
  std::thread(check, std::cref(made)).join();
}

void ContextCalls(const Made&) {
  CUcontext context = nullptr;
  CUdevice device = -1;
  unsigned flags = 0, version = 0;
  int least = 0, greatest = 0;
  size_t limit = 0;
  unsigned long long id = 0;
  CUfunc_cache cache;
  CALL("no context", CUDA_SUCCESS, cuCtxGetCurrent, &context);
  HOLDS(cuCtxGetCurrent, "no context", context == nullptr, "there is one");
  CALL("no context", kNone, cuCtxGetDevice, &device);
  CALL("no context", kNone, cuCtxGetFlags, &flags);
  CALL("no context", kNone, cuCtxGetLimit, &limit, CU_LIMIT_STACK_SIZE);
  CALL("no context", kNone, cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 2048);
  CALL("no context", kNone, cuCtxGetCacheConfig, &cache);
  CALL("no context", kNone, cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
  CALL("no context", kNone, cuCtxGetStreamPriorityRange, &least, &greatest);
  CALL("no context", kNone, cuCtxSynchronize, );
  CALL("no context", kNone, cuCtxPopCurrent, &context);
  CALL("no context", kNone, cuCtxResetPersistingL2Cache, );
  CALL("the current one", kNone, cuCtxGetApiVersion, nullptr, &version);
  CALL("a context", CUDA_SUCCESS, cuCtxGetApiVersion, g_context, &version);
  CALL("the current one", kNone, cuCtxGetId, nullptr, &id);
  CALL("a context", CUDA_SUCCESS, cuCtxGetId, g_context, &id);
}

void StreamCalls(const Made& made) {
  CUstream none = nullptr, stream = made.stream;
  CUcontext context = nullptr;
  CUdevice device = -1;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0, same = 0;
  CUstreamCaptureStatus status;
  CUstreamAttrValue value = {};
  CALL("no context", kNone, cuStreamCreate, &none, CU_STREAM_DEFAULT);
  CALL("no context", kNone, cuStreamCreateWithPriority, &none, CU_STREAM_DEFAULT, 0);
  CALL("a stream", CUDA_SUCCESS, cuStreamQuery, stream);
  CALL("a stream", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("a stream", CUDA_SUCCESS, cuStreamGetFlags, stream, &flags);
  CALL("a stream", CUDA_SUCCESS, cuStreamGetPriority, stream, &priority);
  CALL("a stream", CUDA_SUCCESS, cuStreamGetCtx, stream, &context);
  HOLDS(cuStreamGetCtx, "a stream", context == g_context, "another context");
  CALL("a stream", CUDA_SUCCESS, cuStreamGetDevice, stream, &device);
  CALL("a stream", CUDA_SUCCESS, cuStreamGetId, stream, &id);
  CALL("again", CUDA_SUCCESS, cuStreamGetId, stream, &same);
  HOLDS(cuStreamGetId, "again", id == same, "%llu and %llu", id, same);
  CALL("a stream", CUDA_SUCCESS, cuStreamIsCapturing, stream, &status);
  CALL("a stream", CUDA_SUCCESS, cuStreamGetAttribute, stream,
       CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  CALL("a stream", CUDA_SUCCESS, cuStreamWaitEvent, stream, made.event, 0);
  CALL("a stream", CUDA_SUCCESS, cuStreamWriteValue32, stream, made.memory, 7, 0);
  CALL("a stream", CUDA_SUCCESS, cuStreamWaitValue32, stream, made.memory, 7,
       CU_STREAM_WAIT_VALUE_EQ);
  CUgraph graph = nullptr;
  CALL("a stream", CUDA_SUCCESS, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CALL("a stream", CUDA_SUCCESS, cuStreamEndCapture, stream, &graph);
  CALL("the legacy stream", kNone, cuStreamQuery, nullptr);
  CALL("the legacy stream", kNone, cuStreamSynchronize, nullptr);
  CALL("the legacy stream", kNone, cuStreamGetFlags, nullptr, &flags);
  CALL("the legacy stream", kNone, cuStreamGetCtx, nullptr, &context);
  CALL("the legacy stream", kNone, cuStreamGetId, nullptr, &id);
  CALL("the legacy stream", kNone, cuStreamIsCapturing, nullptr, &status);
  CALL("the legacy stream", kNone, cuStreamWaitEvent, nullptr, made.event, 0);
  CALL("per-thread", kNone, cuStreamQuery, CU_STREAM_PER_THREAD);
  CALL("per-thread", kNone, cuStreamSynchronize, CU_STREAM_PER_THREAD);
  CALL("per-thread", kNone, cuStreamGetId, CU_STREAM_PER_THREAD, &id);
  CALL("a stream", CUDA_SUCCESS, cuStreamDestroy, stream);
}

void EventCalls(const Made& made) {
  CUevent none = nullptr;
  float ms = 0;
  CALL("no context", kNone, cuEventCreate, &none, CU_EVENT_DEFAULT);
  CALL("a stream", CUDA_SUCCESS, cuEventRecord, made.event, made.stream);
  CALL("an event", CUDA_SUCCESS, cuEventSynchronize, made.event);
  CALL("an event", CUDA_SUCCESS, cuEventQuery, made.event);
  CALL("an event", CUDA_SUCCESS, cuEventElapsedTime, &ms, made.event, made.event);
  CALL("the legacy stream", kNone, cuEventRecord, made.event, nullptr);
  CALL("per-thread", kNone, cuEventRecord, made.event, CU_STREAM_PER_THREAD);
  CALL("an event", CUDA_SUCCESS, cuCtxRecordEvent, g_context, made.event);
  CALL("an event", CUDA_SUCCESS, cuCtxWaitEvent, g_context, made.event);
  CALL("an event", CUDA_SUCCESS, cuEventDestroy, made.event);
}

void ModuleCalls(const Made& made) {
  CUmodule none = nullptr, of = nullptr;
  CUfunction function = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  int value = 0;
  unsigned count = 0;
  const char* name = nullptr;
  CUmoduleLoadingMode mode;
  CUfunctionLoadingState state;
  CALL("no context", kNone, cuModuleLoadData, &none, made.image.data());
  CALL("a module", CUDA_SUCCESS, cuModuleGetFunction, &function, made.module, "add_step");
  CALL("a module", CUDA_SUCCESS, cuModuleGetGlobal, &address, &bytes, made.module, "table");
  CALL("a module", CUDA_SUCCESS, cuModuleGetFunctionCount, &count, made.module);
  CALL("any", CUDA_SUCCESS, cuModuleGetLoadingMode, &mode);
  CALL("a function", CUDA_SUCCESS, cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS,
       made.add_step);
  CALL("a function", CUDA_SUCCESS, cuFuncSetAttribute, made.add_step,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
  CALL("a function", CUDA_SUCCESS, cuFuncSetCacheConfig, made.add_step, CU_FUNC_CACHE_PREFER_L1);
  CALL("a function", CUDA_SUCCESS, cuFuncGetModule, &of, made.add_step);
  CALL("a function", CUDA_SUCCESS, cuFuncGetName, &name, made.add_step);
  CALL("a function", CUDA_SUCCESS, cuFuncIsLoaded, &state, made.add_step);
  CALL("a function", CUDA_SUCCESS, cuFuncLoad, made.add_step);
  CALL("a function", kNone, cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, made.add_step, 128,
       0);
  CALL("any", CUDA_SUCCESS, cuLibraryLoadData, &library, made.image.data(), nullptr, nullptr, 0,
       nullptr, nullptr, 0);
  CALL("a library", CUDA_SUCCESS, cuLibraryGetKernel, &kernel, made.library, "add_step");
  CALL("the current one", kNone, cuLibraryGetModule, &none, made.library);
  CALL("the current one", kNone, cuLibraryGetGlobal, &address, &bytes, made.library, "table");
  CALL("a kernel", CUDA_SUCCESS, cuKernelGetName, &name, made.kernel);
  CALL("a kernel", CUDA_SUCCESS, cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS,
       made.kernel, g_device);
  CALL("a kernel", CUDA_SUCCESS, cuKernelSetAttribute,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, made.kernel, g_device);
  CALL("the current one", kNone, cuKernelGetFunction, &function, made.kernel);
  CALL("a kernel", kNone, cuOccupancyMaxActiveBlocksPerMultiprocessor, &value,
       reinterpret_cast<CUfunction>(made.kernel), 128, 0);
  CALL("a library", CUDA_SUCCESS, cuLibraryUnload, made.library);
  CALL("a module", CUDA_SUCCESS, cuModuleUnload, made.module);
}

void LaunchCalls(const Made& made) {
  CUdeviceptr out = made.memory;
  void* parameters[] = {&out};
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = made.stream;
  CALL("a function and a stream", CUDA_SUCCESS, cuLaunchKernel, made.add_step, 1, 1, 1, 1, 1, 1, 0,
       made.stream, parameters, nullptr);
  CALL("a function, the legacy stream", kNone, cuLaunchKernel, made.add_step, 1, 1, 1, 1, 1, 1, 0,
       nullptr, parameters, nullptr);
  CALL("a kernel and a stream", CUDA_SUCCESS, cuLaunchKernel,
       reinterpret_cast<CUfunction>(made.kernel), 1, 1, 1, 1, 1, 1, 0, made.stream, parameters,
       nullptr);
  CALL("a kernel, the legacy stream", kNone, cuLaunchKernel,
       reinterpret_cast<CUfunction>(made.kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
       nullptr);
  CALL("a function and a stream", CUDA_SUCCESS, cuLaunchKernelEx, &config, made.add_step,
       parameters, nullptr);
  CALL("a kernel and a stream", CUDA_SUCCESS, cuLaunchKernelEx, &config,
       reinterpret_cast<CUfunction>(made.kernel), parameters, nullptr);
  CALL("a function and a stream", CUDA_SUCCESS, cuLaunchCooperativeKernel, made.add_step, 1, 1, 1,
       1, 1, 1, 0, made.stream, parameters);
  CALL(
      "a stream", CUDA_SUCCESS, cuLaunchHostFunc, made.stream, [](void*) {}, nullptr);
  CALL("a stream", CUDA_SUCCESS, cuGraphUpload, made.exec, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuGraphLaunch, made.exec, made.stream);
  CALL("the legacy stream", kNone, cuGraphLaunch, made.exec, nullptr);
  CALL("a stream", CUDA_SUCCESS, cuStreamSynchronize, made.stream);
}

void MemoryCalls(const Made& made) {
  CUdeviceptr memory = 0;
  size_t free_bytes = 0, total = 0;
  void* host = nullptr;
  unsigned flags = 0;
  CUdeviceptr base = 0;
  CUcontext context = nullptr;
  CUmemorytype type;
  std::vector<char> bytes(kBytes);
  CALL("no context", kNone, cuMemAlloc, &memory, kBytes);
  CALL("no context", kNone, cuMemAllocManaged, &memory, kBytes, CU_MEM_ATTACH_GLOBAL);
  CALL("no context", kNone, cuMemAllocPitch, &memory, &total, 64, 64, 4);
  CALL("no context", kNone, cuMemAllocHost, &host, kBytes);
  CALL("no context", kNone, cuMemHostAlloc, &host, kBytes, 0);
  CALL("no context", kNone, cuMemHostRegister, g_other, sizeof(g_other), 0);
  CALL("no context", kNone, cuMemGetInfo, &free_bytes, &total);
  CALL("an address", kNone, cuMemGetAddressRange, &base, &total, made.memory);
  CALL("page-locked memory", kNone, cuMemHostGetFlags, &flags, made.pinned);
  CALL("page-locked memory", kNone, cuMemHostGetDevicePointer, &memory, made.pinned, 0);
  CALL("an address", CUDA_SUCCESS, cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT,
       made.memory);
  CALL("an address", CUDA_SUCCESS, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
       made.memory);
  CALL("a stream", CUDA_SUCCESS, cuMemAllocAsync, &memory, kBytes, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemFreeAsync, memory, made.stream);
  CALL("the legacy stream", kNone, cuMemAllocAsync, &memory, kBytes, nullptr);
  CALL("registered memory", CUDA_SUCCESS, cuMemHostUnregister, g_registered);
  CALL("page-locked memory", CUDA_SUCCESS, cuMemFreeHost, made.pinned);
  CALL("an address", CUDA_SUCCESS, cuMemFree, made.more);
}

void CopyCalls(const Made& made) {
  std::vector<char> bytes(kBytes);
  const CUdeviceptr a = made.memory, b = made.more;
  CALL("no context", kNone, cuMemcpyHtoD, a, bytes.data(), kBytes);
  CALL("no context", kNone, cuMemcpyDtoH, bytes.data(), a, kBytes);
  CALL("no context", kNone, cuMemcpyDtoD, b, a, kBytes);
  CALL("no context", kNone, cuMemcpy, b, a, kBytes);
  CALL("a context each", kNone, cuMemcpyPeer, b, g_context, a, g_context, kBytes);
  CALL("no context", kNone, cuMemsetD8, a, 1, kBytes);
  CALL("no context", kNone, cuMemsetD32, a, 1, kBytes / 4);
  CALL("a stream", CUDA_SUCCESS, cuMemcpyHtoDAsync, a, made.pinned, kBytes, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemcpyDtoHAsync, made.pinned, a, kBytes, made.stream);
  CALL("a stream, pageable", CUDA_SUCCESS, cuMemcpyHtoDAsync, a, bytes.data(), kBytes, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemcpyDtoDAsync, b, a, kBytes, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemcpyAsync, b, a, kBytes, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemcpyPeerAsync, b, g_context, a, g_context, kBytes,
       made.stream);
  CALL("a stream", CUDA_SUCCESS, cuMemsetD8Async, a, 1, kBytes, made.stream);
  CALL("the legacy stream", kNone, cuMemcpyHtoDAsync, a, made.pinned, kBytes, nullptr);
  CALL("the legacy stream", kNone, cuMemsetD32Async, a, 1, kBytes / 4, nullptr);
  CUDA_MEMCPY2D box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = a;
  box.dstDevice = b;
  box.srcPitch = box.dstPitch = box.WidthInBytes = 64;
  box.Height = 4;
  CALL("no context", kNone, cuMemcpy2D, &box);
  CALL("a stream", CUDA_SUCCESS, cuMemcpy2DAsync, &box, made.stream);
  CALL("a stream", CUDA_SUCCESS, cuStreamSynchronize, made.stream);
}

void ObjectCalls(const Made& made) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUlinkState link = nullptr;
  CUarray array = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr reserved = 0;
  CUmemGenericAllocationHandle handle = 0;
  CALL("any", CUDA_SUCCESS, cuGraphCreate, &graph, 0);
  // A node that is no kernel node crashes NVIDIA's driver.
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = made.memory;
  fill.elementSize = 4;
  fill.width = 16;
  fill.height = 1;
  CALL("a context", CUDA_SUCCESS, cuGraphAddMemsetNode, &node, graph, nullptr, 0, &fill, g_context);
  CALL("the current one", CUDA_SUCCESS, cuGraphAddMemsetNode, &node, graph, nullptr, 0, &fill,
       nullptr);
  CALL("no context", kNone, cuGraphInstantiate, &exec, graph, 0);
  CALL("an executable graph", CUDA_SUCCESS, cuGraphExecDestroy, made.exec);
  CALL("any", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("no context", kNone, cuLinkCreate, 0, nullptr, nullptr, &link);
  CUDA_ARRAY_DESCRIPTOR shape = {16, 0, CU_AD_FORMAT_FLOAT, 1};
  CALL("no context", kNone, cuArrayCreate, &array, &shape);
  CUDA_ARRAY_DESCRIPTOR got = {};
  CUDA_RESOURCE_DESC resource = {};
  CUtexObject texture = 0;
  const CUDA_TEXTURE_DESC sampling = {};
  CALL("an array", CUDA_SUCCESS, cuArrayGetDescriptor, &got, made.array);
  if (!on_cpu()) {
    CALL("a texture", kNone, cuTexObjectGetResourceDesc, &resource, made.texture);
    CALL("no context", kNone, cuTexObjectCreate, &texture, &resource, &sampling, nullptr);
    CALL("a texture", kNone, cuTexObjectDestroy, made.texture);
  }
  CALL("an array", CUDA_SUCCESS, cuArrayDestroy, made.array);
  CALL("a device", CUDA_SUCCESS, cuDeviceGetDefaultMemPool, &pool, g_device);
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, g_device};
  CALL("a device", CUDA_SUCCESS, cuMemPoolCreate, &pool, &props);
  CALL("a pool", CUDA_SUCCESS, cuMemPoolTrimTo, pool, 0);
  CALL("a pool", CUDA_SUCCESS, cuMemPoolDestroy, pool);
  CALL("any", CUDA_SUCCESS, cuMemAddressReserve, &reserved, 2 << 20, 0, 0, 0);
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, g_device};
  CALL("a device", CUDA_SUCCESS, cuMemCreate, &handle, 2 << 20, &prop, 0);
  CALL("any", CUDA_SUCCESS, cuMemMap, reserved, 2 << 20, 0, handle, 0);
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, g_device},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CALL("any", CUDA_SUCCESS, cuMemSetAccess, reserved, 2 << 20, &access, 1);
  CALL("any", CUDA_SUCCESS, cuMemUnmap, reserved, 2 << 20);
  CALL("any", CUDA_SUCCESS, cuMemRelease, handle);
  CALL("any", CUDA_SUCCESS, cuMemAddressFree, reserved, 2 << 20);
}

void Contexts() { Elsewhere(&ContextCalls); }
void Streams() { Elsewhere(&StreamCalls); }
void Events() { Elsewhere(&EventCalls); }
void Modules() { Elsewhere(&ModuleCalls); }
void Launches() { Elsewhere(&LaunchCalls); }
void Memory() { Elsewhere(&MemoryCalls); }
void Copies() { Elsewhere(&CopyCalls); }
void Objects() { Elsewhere(&ObjectCalls); }

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "no_context",
             {{"contexts", &Contexts},
              {"streams", &Streams},
              {"events", &Events},
              {"modules", &Modules},
              {"launches", &Launches},
              {"memory", &Memory},
              {"copies", &Copies},
              {"objects", &Objects}});
}
