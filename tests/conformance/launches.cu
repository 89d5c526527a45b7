// Launches: both forms of parameters, attributes, cooperative launches, and refusals.
#include <atomic>
#include <numeric>
#include <thread>

#include "setting.h"

namespace conformance {
namespace {

struct Kernels {
  CUmodule module = nullptr;
  CUfunction nothing, places, many, reverse, bounded;

  bool Open() {
    return Begin() && LoadModule(&module) && Kernel(&nothing, module, "nothing") &&
           Kernel(&places, module, "places") && Kernel(&many, module, "many_parameters") &&
           Kernel(&reverse, module, "reverse") && Kernel(&bounded, module, "bounded");
  }
};

// Counts the words of `out` that kernel `places` did not write; all of them if the copy fails.
unsigned WrongPlaces(CUdeviceptr out, unsigned count) {
  std::vector<unsigned> words(count);
  if (CU(cuMemcpyDtoH)(words.data(), out, count * 4) != CUDA_SUCCESS) return count;
  unsigned wrong = 0;
  for (unsigned i = 0; i < count; ++i) wrong += words[i] != i * 3 + 1;
  return wrong;
}

void Forms() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUdeviceptr out = 0;
  constexpr unsigned kCount = 3 * 2 * 2 * 8 * 4 * 2;
  SETUP(cuMemAlloc, &out, kCount * 4);
  void* parameters[] = {&out};
  CALL("grid of three dimensions", CUDA_SUCCESS, cuLaunchKernel, kernels.places, 3, 2, 2, 8, 4, 2,
       0, nullptr, parameters, nullptr);
  HOLDS(cuLaunchKernel, "every thread knows its place", WrongPlaces(out, kCount) == 0,
        "%u wrong words", WrongPlaces(out, kCount));

  char a = 1;
  short b = -2;
  int c = 300;
  long long d = 1LL << 40;
  float e = 5.5f;
  struct {
    int words[3];
  } f = {{10, 20, 30}};
  double g = 7.25;
  void* many[] = {&a, &b, &c, &d, &e, &f, &g, &out};
  const unsigned long long expected = (1ULL << 40) + 1 - 2 + 300 + 5 + 60 + 7;
  unsigned long long got = 0;
  CALL("kernelParams of many types", CUDA_SUCCESS, cuLaunchKernel, kernels.many, 1, 1, 1, 1, 1, 1,
       0, nullptr, many, nullptr);
  SETUP(cuMemcpyDtoH, &got, out, 8);
  EQUAL(cuLaunchKernel, "kernelParams arrive", got, expected);

  unsigned char packed[48] = {};
  std::memcpy(packed, &a, 1);
  std::memcpy(packed + 2, &b, 2);
  std::memcpy(packed + 4, &c, 4);
  std::memcpy(packed + 8, &d, 8);
  std::memcpy(packed + 16, &e, 4);
  std::memcpy(packed + 20, &f, 12);
  std::memcpy(packed + 32, &g, 8);
  std::memcpy(packed + 40, &out, 8);
  size_t size = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  SETUP(cuMemsetD8, out, 0, 8);
  CALL("extra", CUDA_SUCCESS, cuLaunchKernel, kernels.many, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
       extra);
  SETUP(cuMemcpyDtoH, &got, out, 8);
  EQUAL(cuLaunchKernel, "extra arrives", got, expected);
  CALL("both forms at once", CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, kernels.many, 1, 1, 1, 1, 1,
       1, 0, nullptr, many, extra);
  CALL("no parameters", CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, kernels.many, 1, 1, 1, 1, 1, 1, 0,
       nullptr, nullptr, nullptr);
  CALL("per-thread stream", CUDA_SUCCESS, cuLaunchKernel, kernels.nothing, 1, 1, 1, 1, 1, 1, 0,
       CU_STREAM_PER_THREAD, nullptr, nullptr);
  CALL_SYMBOL("per-thread default stream", CUDA_SUCCESS, cuLaunchKernel, "cuLaunchKernel_ptsz",
              kernels.nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CALL("legacy stream", CUDA_SUCCESS, cuLaunchKernel, kernels.nothing, 1, 1, 1, 1, 1, 1, 0,
       CU_STREAM_LEGACY, nullptr, nullptr);
  CALL("after launches", CUDA_SUCCESS, cuCtxSynchronize);
}

void SharedMemory() {
  Kernels kernels;
  if (!kernels.Open()) return;
  constexpr unsigned kWords = 16000;  // More than 48 KiB.
  CUdeviceptr words = 0;
  SETUP(cuMemAlloc, &words, kWords * 4);
  std::vector<unsigned> host(kWords);
  std::iota(host.begin(), host.end(), 0u);
  SETUP(cuMemcpyHtoD, words, host.data(), kWords * 4);
  unsigned n = kWords;
  void* parameters[] = {&words, &n};
  CALL("64000 bytes unasked", CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, kernels.reverse, 1, 1, 1,
       256, 1, 1, kWords * 4, nullptr, parameters, nullptr);
  SETUP(cuFuncSetAttribute, kernels.reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        kWords * 4);
  CALL("64000 bytes", CUDA_SUCCESS, cuLaunchKernel, kernels.reverse, 1, 1, 1, 256, 1, 1, kWords * 4,
       nullptr, parameters, nullptr);
  SETUP(cuMemcpyDtoH, host.data(), words, kWords * 4);
  unsigned wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) wrong += host[i] != kWords - 1 - i;
  HOLDS(cuLaunchKernel, "dynamic shared memory holds", wrong == 0, "%u wrong words", wrong);
  CALL("a GiB", CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, kernels.reverse, 1, 1, 1, 256, 1, 1,
       1u << 30, nullptr, parameters, nullptr);
}

void Refused() {
  Kernels kernels;
  if (!kernels.Open()) return;
  const auto launch = [&](const char* check, CUresult expected, CUfunction function, unsigned gx,
                          unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz) {
    CALL(check, expected, cuLaunchKernel, function, gx, gy, gz, bx, by, bz, 0, nullptr, nullptr,
         nullptr);
  };
  launch("no blocks", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 0, 1, 1, 32, 1, 1);
  launch("no threads", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 1, 1, 0, 1, 1);
  launch("2048 threads", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 1, 1, 2048, 1, 1);
  launch("1056 threads", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 1, 1, 33, 32, 1);
  launch("block 65 deep", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 1, 1, 1, 1, 65);
  launch("grid 70000 high", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 70000, 1, 1, 1, 1);
  launch("grid 70000 deep", CUDA_ERROR_INVALID_VALUE, kernels.nothing, 1, 1, 70000, 1, 1, 1);
  launch("more threads than bounded", CUDA_ERROR_INVALID_VALUE, kernels.bounded, 1, 1, 1, 256, 1,
         1);
  launch("no function", CUDA_ERROR_INVALID_HANDLE, nullptr, 1, 1, 1, 1, 1, 1);
  launch("after refusals", CUDA_SUCCESS, kernels.nothing, 1, 1, 1, 1, 1, 1);
  CALL("after refusals", CUDA_SUCCESS, cuCtxSynchronize);
}

CUlaunchConfig Config(CUlaunchAttribute* attributes, unsigned count, unsigned blocks = 4) {
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.attrs = attributes;
  config.numAttrs = count;
  return config;
}

void Attributes() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 8 * 64 * 4);
  void* parameters[] = {&out};
  CUlaunchConfig config = Config(nullptr, 0);
  CALL("no attributes", CUDA_SUCCESS, cuLaunchKernelEx, &config, kernels.places, parameters,
       nullptr);
  HOLDS(cuLaunchKernelEx, "every thread knows its place", WrongPlaces(out, 256) == 0,
        "%u wrong words", WrongPlaces(out, 256));
  CALL("no config", CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx, nullptr, kernels.places, parameters,
       nullptr);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx, &config, nullptr, parameters,
       nullptr);
  const auto with = [&](const char* check, CUresult expected, CUlaunchAttribute attribute) {
    CUlaunchConfig one = Config(&attribute, 1);
    CALL(check, expected, cuLaunchKernelEx, &one, kernels.places, parameters, nullptr);
  };
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  with("IGNORE", CUDA_SUCCESS, attribute);
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = 0;
  with("PRIORITY", CUDA_SUCCESS, attribute);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  with("PROGRAMMATIC_STREAM_SERIALIZATION", CUDA_SUCCESS, attribute);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  attribute.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  with("MEM_SYNC_DOMAIN", CUDA_SUCCESS, attribute);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
  attribute.value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(out);
  attribute.value.accessPolicyWindow.num_bytes = 1024;
  attribute.value.accessPolicyWindow.hitRatio = 0.5f;
  attribute.value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
  attribute.value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
  with("ACCESS_POLICY_WINDOW", CUDA_SUCCESS, attribute);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  attribute.value.sharedMemCarveout = 50;
  with("PREFERRED_SHARED_MEMORY_CARVEOUT", CUDA_SUCCESS, attribute);
  CUevent event = nullptr;
  SETUP(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event;
  with("LAUNCH_COMPLETION_EVENT", CUDA_SUCCESS, attribute);
  CALL("recorded by a launch", CUDA_SUCCESS, cuEventSynchronize, event);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  attribute.value.programmaticEvent.event = event;
  with("PROGRAMMATIC_EVENT", CUDA_SUCCESS, attribute);
  CALL("recorded by a kernel", CUDA_SUCCESS, cuEventSynchronize, event);
  attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  with("COOPERATIVE", CUDA_SUCCESS, attribute);
  attribute = {};
  attribute.id = static_cast<CUlaunchAttributeID>(4711);
  with("unknown attribute", CUDA_ERROR_INVALID_VALUE, attribute);
  CALL("after attributes", CUDA_SUCCESS, cuCtxSynchronize);
  HOLDS(cuLaunchKernelEx, "results with attributes", WrongPlaces(out, 256) == 0, "%u wrong words",
        WrongPlaces(out, 256));
}

void Clusters() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 8 * 64 * 4);
  void* parameters[] = {&out};
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 2;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
  attributes[1].value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
  CUlaunchConfig config = Config(attributes, 2, 8);
  if (on_cpu()) {
    REFUSED("CLUSTER_DIMENSION", CUDA_SUCCESS, cuLaunchKernelEx, &config, kernels.places,
            parameters, nullptr);
    return;
  }
  CALL("CLUSTER_DIMENSION", CUDA_SUCCESS, cuLaunchKernelEx, &config, kernels.places, parameters,
       nullptr);
  HOLDS(cuLaunchKernelEx, "results of a cluster launch", WrongPlaces(out, 512) == 0,
        "%u wrong words", WrongPlaces(out, 512));
  attributes[0].value.clusterDim.x = 3;
  CALL("blocks no multiple of the cluster", CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx,
       &config, kernels.places, parameters, nullptr);
  attributes[0].value.clusterDim.x = 64;
  config.gridDimX = 64;
  CALL("cluster too large", CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx, &config,
       kernels.places, parameters, nullptr);
  CALL("after clusters", CUDA_SUCCESS, cuCtxSynchronize);
}

void Cooperative() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction grid_sum = nullptr;
  if (!LoadModule(&module, "ptx/cooperative_kernels.ptx") ||
      !Kernel(&grid_sum, module, "grid_sum")) {
    return;
  }
  int processors = 0, blocks = 0;
  SETUP(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g_device);
  SETUP(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, grid_sum, 64, 0);
  CUdeviceptr cells = 0, total = 0;
  const unsigned grid = 4;
  SETUP(cuMemAlloc, &cells, grid * 64 * 4);
  SETUP(cuMemAlloc, &total, 4);
  void* parameters[] = {&cells, &total};
  unsigned sum = 0;
  const unsigned expected = (grid * 64) * (grid * 64 + 1) / 2;
  CALL("4 blocks", CUDA_SUCCESS, cuLaunchCooperativeKernel, grid_sum, grid, 1, 1, 64, 1, 1, 0,
       nullptr, parameters);
  CALL("4 blocks", CUDA_SUCCESS, cuMemcpyDtoH, &sum, total, 4);
  EQUAL(cuLaunchCooperativeKernel, "blocks wait for each other", sum, expected);
  CALL("more blocks than fit", CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel,
       grid_sum, static_cast<unsigned>(processors * blocks + 1), 1, 1, 64, 1, 1, 0, nullptr,
       parameters);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuLaunchCooperativeKernel, nullptr, 1, 1, 1, 1, 1,
       1, 0, nullptr, parameters);
  CALL("no threads", CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernel, grid_sum, 1, 1, 1, 0, 1,
       1, 0, nullptr, parameters);
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CUlaunchConfig config = Config(&attribute, 1, grid);
  SETUP(cuMemsetD32, total, 0, 1);
  CALL("cooperative", CUDA_SUCCESS, cuLaunchKernelEx, &config, grid_sum, parameters, nullptr);
  CALL("cooperative", CUDA_SUCCESS, cuMemcpyDtoH, &sum, total, 4);
  EQUAL(cuLaunchKernelEx, "cooperative blocks wait for each other", sum, expected);
}

// The functions of CUDA's first versions.
void Legacy() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 4096);
  CALL("64 threads", CUDA_SUCCESS, cuFuncSetBlockShape, kernels.places, 64, 1, 1);
  CALL("no shared memory", CUDA_SUCCESS, cuFuncSetSharedSize, kernels.places, 0);
  CALL("8 bytes", CUDA_SUCCESS, cuParamSetSize, kernels.places, 8);
  CALL("a pointer", CUDA_SUCCESS, cuParamSetv, kernels.places, 0, &out, 8);
  CALL("grid of 4", CUDA_SUCCESS, cuLaunchGrid, kernels.places, 4, 1);
  HOLDS(cuLaunchGrid, "every thread knows its place", WrongPlaces(out, 256) == 0, "%u wrong words",
        WrongPlaces(out, 256));
  CALL("one block", CUDA_SUCCESS, cuLaunch, kernels.places);
  CALL("on a stream", CUDA_SUCCESS, cuLaunchGridAsync, kernels.places, 4, 1, nullptr);
  CALL("an integer", CUDA_SUCCESS, cuParamSeti, kernels.places, 0, 0);
  CALL("a float", CUDA_SUCCESS, cuParamSetf, kernels.places, 4, 0.0f);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuLaunch, nullptr);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuFuncSetBlockShape, nullptr, 64, 1, 1);
  CALL("after them", CUDA_SUCCESS, cuCtxSynchronize);
}

// Checks what these functions refuse, and when: limits of the block and of shared memory where they
// are set, the size of the parameters at the launch.
void LegacyLimits() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 4096);
  CALL("64 threads", CUDA_SUCCESS, cuFuncSetBlockShape, kernels.places, 64, 1, 1);
  CALL("no width", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 0, 1, 1);
  CALL("no height", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 1, 0, 1);
  CALL("no depth", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 1, 1, 0);
  CALL("negative", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, -1, 1, 1);
  CALL("1025 wide", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 1025, 1, 1);
  CALL("65 deep", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 1, 1, 65);
  CALL("4096 threads", CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape, kernels.places, 64, 64, 1);
  CALL("48 KiB", CUDA_SUCCESS, cuFuncSetSharedSize, kernels.places, 49152);
  CALL("more unasked", CUDA_ERROR_INVALID_VALUE, cuFuncSetSharedSize, kernels.places, 49153);
  CALL("a MiB", CUDA_ERROR_INVALID_VALUE, cuFuncSetSharedSize, kernels.places, 1u << 20);
  CALL("4 GiB", CUDA_ERROR_INVALID_VALUE, cuFuncSetSharedSize, kernels.places, ~0u);
  SETUP(cuFuncSetAttribute, kernels.places, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000);
  CALL("more, asked for", CUDA_SUCCESS, cuFuncSetSharedSize, kernels.places, 60000);
  CALL("none again", CUDA_SUCCESS, cuFuncSetSharedSize, kernels.places, 0);
  SETUP(cuParamSetv, kernels.places, 0, &out, 8);
  SETUP(cuParamSetSize, kernels.places, 8);
  CALL("no width", CUDA_ERROR_INVALID_VALUE, cuLaunchGrid, kernels.places, 0, 1);
  CALL("no height", CUDA_ERROR_INVALID_VALUE, cuLaunchGrid, kernels.places, 1, 0);
  CALL("negative width", CUDA_ERROR_INVALID_VALUE, cuLaunchGrid, kernels.places, -1, 1);
  CALL("negative height", CUDA_ERROR_INVALID_VALUE, cuLaunchGridAsync, kernels.places, 1, -1,
       nullptr);
  CALL("65536 high", CUDA_ERROR_INVALID_VALUE, cuLaunchGrid, kernels.places, 1, 65536);
  CALL("after what was refused", CUDA_SUCCESS, cuLaunchGrid, kernels.places, 4, 1);
  HOLDS(cuFuncSetBlockShape, "what was refused was not kept", WrongPlaces(out, 256) == 0,
        "%u wrong words", WrongPlaces(out, 256));
  CALL("more than the kernel has", CUDA_SUCCESS, cuParamSeti, kernels.places, 8, 1);
  for (const unsigned size : {9u, 12u, 4097u, 32764u}) {
    CALL("more than the kernel has", CUDA_SUCCESS, cuParamSetSize, kernels.places, size);
    CALL("more parameters than the kernel has", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunchGrid,
         kernels.places, 4, 1);
  }
  CALL("more than any has", CUDA_ERROR_INVALID_VALUE, cuParamSetSize, kernels.places, 32765);
  CALL("no parameters, none set", CUDA_SUCCESS, cuLaunch, kernels.nothing);
  CALL("of a kernel without", CUDA_SUCCESS, cuParamSetSize, kernels.nothing, 4);
  CALL("parameters of a kernel without", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunch,
       kernels.nothing);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuFuncSetSharedSize, nullptr, 0);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuParamSetSize, nullptr, 8);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuParamSetv, nullptr, 0, &out, 8);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuParamSeti, nullptr, 0, 1);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuParamSetf, nullptr, 0, 1.0f);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuLaunchGrid, nullptr, 1, 1);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuLaunchGridAsync, nullptr, 1, 1, nullptr);
  CALL("after them", CUDA_SUCCESS, cuCtxSynchronize);
  if (native()) return;  // NVIDIA's driver crashes on these.
  CALL("before the beginning", CUDA_ERROR_INVALID_VALUE, cuParamSeti, kernels.places, -4, 1);
  CALL("from nowhere", CUDA_ERROR_INVALID_VALUE, cuParamSetv, kernels.places, 0, nullptr, 8);
  SETUP(cuModuleUnload, kernels.module);
  CALL("unloaded", CUDA_ERROR_INVALID_HANDLE, cuFuncSetBlockShape, kernels.places, 1, 1, 1);
  CALL("unloaded", CUDA_ERROR_INVALID_HANDLE, cuParamSeti, kernels.places, 0, 1);
  CALL("unloaded", CUDA_ERROR_INVALID_HANDLE, cuLaunchGrid, kernels.places, 1, 1);
}

// Checks what a launch finds set, in whatever order it was set.
void LegacySequences() {
  Kernels kernels;
  CUfunction store = nullptr;
  if (!kernels.Open() || !Kernel(&store, kernels.module, "store")) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 4096);
  unsigned got = 0;
  const auto launched = [&] {
    const bool ran = CU(cuMemsetD32)(out, 5, 1) == CUDA_SUCCESS &&
                     CU(cuLaunch)(store) == CUDA_SUCCESS &&
                     CU(cuMemcpyDtoH)(&got, out, 4) == CUDA_SUCCESS;
    return ran ? got : ~0u;
  };
  SETUP(cuParamSetv, store, 0, &out, 8);
  SETUP(cuParamSeti, store, 8, 7);
  SETUP(cuParamSetSize, store, 12);
  EQUAL(cuLaunch, "a block of one unless it was set", launched(), 7u);
  SETUP(cuParamSeti, store, 8, 9);
  EQUAL(cuParamSeti, "after a launch, for the next", launched(), 9u);
  SETUP(cuParamSetSize, store, 8);
  EQUAL(cuParamSetSize, "too few: the rest is zero", launched(), 0u);
  SETUP(cuParamSetSize, store, 12);
  EQUAL(cuParamSetSize, "a smaller size forgets nothing", launched(), 9u);
  float value = 1.5f;
  SETUP(cuParamSetf, store, 8, value);
  SETUP(cuParamSetSize, store, 12);
  unsigned bits = 0;
  std::memcpy(&bits, &value, 4);
  EQUAL(cuParamSetf, "the bits of a float", launched(), bits);

  // Both threads set the same values, because a value that one sets in between would hold for the
  // other, too.
  CUcontext context = nullptr;
  SETUP(cuCtxGetCurrent, &context);
  SETUP(cuFuncSetBlockShape, kernels.places, 64, 1, 1);
  SETUP(cuParamSetSize, kernels.places, 8);
  std::atomic<int> failed{0};
  const auto launch_often = [&] {
    failed += CU(cuCtxSetCurrent)(context) != CUDA_SUCCESS;
    for (int i = 0; i < 200; ++i) {
      failed += CU(cuParamSetv)(kernels.places, 0, &out, 8) != CUDA_SUCCESS;
      failed += CU(cuFuncSetBlockShape)(kernels.places, 64, 1, 1) != CUDA_SUCCESS;
      failed += CU(cuLaunchGrid)(kernels.places, 4, 1) != CUDA_SUCCESS;
    }
  };
  std::thread one(launch_often), other(launch_often);
  one.join();
  other.join();
  EQUAL(cuLaunchGrid, "two threads on a function", failed.load(), 0);
  HOLDS(cuLaunchGrid, "two threads on a function", WrongPlaces(out, 256) == 0, "%u wrong words",
        WrongPlaces(out, 256));
}

// These calls cannot be captured: they are unsafe.
void LegacyCaptures() {
  Kernels kernels;
  if (!kernels.Open()) return;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    CUgraph graph = nullptr;
    SETUP(cuStreamBeginCapture, stream, mode);
    CALL("on a capturing stream", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuLaunchGridAsync,
         kernels.nothing, 1, 1, stream);
    CALL("during a capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuLaunchGrid, kernels.nothing,
         1, 1);
    CALL("during a capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuLaunch, kernels.nothing);
    CALL("during a capture", CUDA_SUCCESS, cuFuncSetBlockShape, kernels.nothing, 32, 1, 1);
    CALL("during a capture", CUDA_SUCCESS, cuParamSeti, kernels.many, 0, 1);
    CALL("after old launches", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, stream,
         &graph);
  }
  CUgraph graph = nullptr;
  SETUP(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CALL("during a relaxed capture", CUDA_SUCCESS, cuLaunchGridAsync, kernels.nothing, 1, 1, stream);
  CALL("during a relaxed capture", CUDA_SUCCESS, cuLaunch, kernels.nothing);
  CALL("after old launches", CUDA_SUCCESS, cuStreamEndCapture, stream, &graph);
  CALL("after captures", CUDA_SUCCESS, cuLaunchGridAsync, kernels.nothing, 1, 1, stream);
  CALL("after captures", CUDA_SUCCESS, cuCtxSynchronize);
}

// A kernel that faults ends the context: every later call gives the same error.
void Sticky() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  if (!LoadModule(&module) || !Kernel(&store, module, "store")) return;
  CUdeviceptr wild = 0x10, memory = 0;
  unsigned value = 1;
  void* parameters[] = {&wild, &value};
  CALL("faulting kernel", CUDA_SUCCESS, cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0, nullptr,
       parameters, nullptr);
  CALL("after a fault", CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
  CALL("after a fault", CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc, &memory, 256);
  CALL("after a fault", CUDA_ERROR_ILLEGAL_ADDRESS, cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0,
       nullptr, parameters, nullptr);
  CALL("after a fault", CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, nullptr);
  int count = 0;
  CALL("after a fault", CUDA_SUCCESS, cuDeviceGetCount, &count);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "launches",
             {{"forms", Forms},
              {"shared_memory", SharedMemory},
              {"refused", Refused},
              {"attributes", Attributes},
              {"clusters", Clusters},
              {"cooperative", Cooperative},
              {"legacy", Legacy},
              {"legacy_limits", LegacyLimits},
              {"legacy_sequences", LegacySequences},
              {"legacy_captures", LegacyCaptures},
              {"sticky", Sticky}});
}
