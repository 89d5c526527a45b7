// Devices, their properties, and the primary context.
#include "setting.h"

namespace conformance {
namespace {

void Queries() {
  SETUP(cuInit, 0);
  int count = 0;
  CALL("count", CUDA_SUCCESS, cuDeviceGetCount, &count);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetCount, nullptr);
  CUdevice device = -1;
  CALL("first", CUDA_SUCCESS, cuDeviceGet, &device, 0);
  CALL("past the last", CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, count);
  CALL("negative", CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, -1);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGet, nullptr, 0);
  device = 0;

  char name[256] = {};
  CALL("name", CUDA_SUCCESS, cuDeviceGetName, name, sizeof(name), device);
  HOLDS(cuDeviceGetName, "is not empty", name[0] != '\0', "'%s'", name);
  char short_name[5] = "....";
  CALL("short buffer", CUDA_SUCCESS, cuDeviceGetName, short_name, 4, device);
  HOLDS(cuDeviceGetName, "short buffer is terminated", std::strlen(short_name) == 3, "'%s'",
        short_name);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName, name, sizeof(name), count);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetName, nullptr, 10, device);

  CUuuid uuid = {}, other = {};
  CALL("uuid", CUDA_SUCCESS, cuDeviceGetUuid, &uuid, device);
  CALL_SYMBOL("uuid", CUDA_SUCCESS, cuDeviceGetUuid, "cuDeviceGetUuid", &other, device);
  HOLDS(cuDeviceGetUuid, "both versions agree", std::memcmp(&uuid, &other, sizeof(uuid)) == 0,
        "they differ");
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetUuid, &uuid, count);

  size_t bytes = 0;
  CALL("memory", CUDA_SUCCESS, cuDeviceTotalMem, &bytes, device);
  HOLDS(cuDeviceTotalMem, "at least a GiB", bytes >= size_t{1} << 30, "%zu bytes", bytes);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceTotalMem, &bytes, count);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceTotalMem, nullptr, device);

  char bus_id[32] = {};
  CALL("bus id", CUDA_SUCCESS, cuDeviceGetPCIBusId, bus_id, sizeof(bus_id), device);
  CUdevice found = -1;
  CALL("by bus id", CUDA_SUCCESS, cuDeviceGetByPCIBusId, &found, bus_id);
  EQUAL(cuDeviceGetByPCIBusId, "gives the device back", found, device);
  CALL("unknown bus id", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId, &found, "ffff:ff:1f.0");
  CALL("no bus id", CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId, &found, nullptr);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetPCIBusId, bus_id, 32, count);
}

void Resources() {
  if (!Begin()) return;
  int multiprocessors = 0;
  SETUP(cuDeviceGetAttribute, &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  CUdevResource of_device = {}, of_context = {};
  CALL("multiprocessors", CUDA_SUCCESS, cuDeviceGetDevResource, 0, &of_device,
       CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuDeviceGetDevResource, "type", of_device.type, CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuDeviceGetDevResource, "all of them", static_cast<int>(of_device.sm.smCount),
        multiprocessors);
  HOLDS(cuDeviceGetDevResource, "parts",
        of_device.sm.minSmPartitionSize > 0 && of_device.sm.smCoscheduledAlignment > 0 &&
            of_device.sm.smCount >= of_device.sm.minSmPartitionSize,
        "%u of %u", of_device.sm.minSmPartitionSize, of_device.sm.smCoscheduledAlignment);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDevResource, -1, &of_device,
       CU_DEV_RESOURCE_TYPE_SM);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetDevResource, 0, nullptr,
       CU_DEV_RESOURCE_TYPE_SM);
  CALL("multiprocessors", CUDA_SUCCESS, cuCtxGetDevResource, g_context, &of_context,
       CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuCtxGetDevResource, "as the device's", of_context.sm.smCount, of_device.sm.smCount);
  EQUAL(cuCtxGetDevResource, "the same parts", of_context.sm.minSmPartitionSize,
        of_device.sm.minSmPartitionSize);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetDevResource, g_context, nullptr,
       CU_DEV_RESOURCE_TYPE_SM);
}

void Notified(CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {}

void Notifications() {
  SETUP(cuInit, 0);
  CUasyncCallbackHandle callback = nullptr;
  CALL("a callback", CUDA_SUCCESS, cuDeviceRegisterAsyncNotification, 0, Notified, nullptr,
       &callback);
  if (!native()) {
    CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceRegisterAsyncNotification, -1, Notified,
         nullptr, &callback);
  }
  CALL("the callback", CUDA_SUCCESS, cuDeviceUnregisterAsyncNotification, 0, callback);
}

void Log(void*, CUlogLevel, char*, size_t) {}

void Logs() {
  SETUP(cuInit, 0);
  CUlogsCallbackHandle callback = nullptr;
  CALL("a callback", CUDA_SUCCESS, cuLogsRegisterCallback, Log, nullptr, &callback);
  // NVIDIA's driver does not look.
  if (!native()) {
    CALL("no callback", CUDA_ERROR_INVALID_VALUE, cuLogsRegisterCallback, nullptr, nullptr,
         nullptr);
  }
  CUlogIterator next = 0;
  CALL("the end", CUDA_SUCCESS, cuLogsCurrent, &next, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuLogsCurrent, nullptr, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuLogsCurrent, &next, 1);
  char text[4096] = "not empty";
  size_t bytes = sizeof(text);
  CALL("nothing new", CUDA_SUCCESS, cuLogsDumpToMemory, &next, text, &bytes, 0);
  EQUAL(cuLogsDumpToMemory, "nothing new", bytes, 0u);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory, &next, nullptr, &bytes, 0);
  CALL("no path", CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile, &next, nullptr, 0);
  CALL("the callback", CUDA_SUCCESS, cuLogsUnregisterCallback, callback);
}

void CoreFiles() {
  SETUP(cuInit, 0);
  bool on = true, got = true;
  size_t size = 0;
  CALL("a size", CUDA_SUCCESS, cuCoredumpGetAttributeGlobal, CU_COREDUMP_LIGHTWEIGHT, nullptr,
       &size);
  EQUAL(cuCoredumpGetAttributeGlobal, "size of a truth", size, sizeof(bool));
  CALL("lightweight", CUDA_SUCCESS, cuCoredumpSetAttributeGlobal, CU_COREDUMP_LIGHTWEIGHT, &on,
       &size);
  got = false;
  CALL("lightweight", CUDA_SUCCESS, cuCoredumpGetAttributeGlobal, CU_COREDUMP_LIGHTWEIGHT, &got,
       &size);
  EQUAL(cuCoredumpGetAttributeGlobal, "lightweight", got, true);
  char file[1024] = "corefile", name[1024] = {};
  size = sizeof(file);
  CALL("a file", CUDA_SUCCESS, cuCoredumpSetAttributeGlobal, CU_COREDUMP_FILE, file, &size);
  size = sizeof(name);
  CALL("a file", CUDA_SUCCESS, cuCoredumpGetAttributeGlobal, CU_COREDUMP_FILE, name, &size);
  HOLDS(cuCoredumpGetAttributeGlobal, "the file", std::strcmp(name, file) == 0, "'%s'", name);
  size = sizeof(on);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttributeGlobal, CU_COREDUMP_MAX, &got,
       &size);
  if (native()) return;
  CALL("on an exception", CUDA_ERROR_NOT_SUPPORTED, cuCoredumpSetAttributeGlobal,
       CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size);
}

void Attributes() {
  SETUP(cuInit, 0);
  int value = 0, major = 0, minor = 0;
  // libcudart asks for these when it starts; it fails if any of them does.
  static const int kAsked[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,  14,  16,  18,
                               19, 21, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,  50,  75,  76,
                               78, 79, 80, 81, 82, 83, 86, 88, 89, 90, 95, 97, 106, 111, 115, 120};
  int failed = 0;
  for (const int id : kAsked) {
    failed += CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(id), 0) != 0;
  }
  HOLDS(cuDeviceGetAttribute, "all that libcudart asks for", failed == 0, "%d fail", failed);
  CALL("major", CUDA_SUCCESS, cuDeviceGetAttribute, &major,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  CALL("minor", CUDA_SUCCESS, cuDeviceGetAttribute, &minor,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  int old_major = 0, old_minor = 0;
  CALL("both", CUDA_SUCCESS, cuDeviceComputeCapability, &old_major, &old_minor, 0);
  EQUAL(cuDeviceComputeCapability, "agrees with the attributes", old_major * 10 + old_minor,
        major * 10 + minor);
  const struct {
    CUdevice_attribute id;
    const char* name;
    int least, most;
  } kBounds[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK", 1024, 1024},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, "WARP_SIZE", 32, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, "MAX_GRID_DIM_X", 2147483647, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, "MAX_BLOCK_DIM_Z", 64, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, "MAX_SHARED_MEMORY_PER_BLOCK", 49152,
       49152},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "MULTIPROCESSOR_COUNT", 1, 1024},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "UNIFIED_ADDRESSING", 1, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "COOPERATIVE_LAUNCH", 1, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "MEMORY_POOLS_SUPPORTED", 1, 1},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, "STREAM_PRIORITIES_SUPPORTED", 1, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, "COMPUTE_MODE", 0, 3},
  };
  for (const auto& bound : kBounds) {
    if (CALL(bound.name, CUDA_SUCCESS, cuDeviceGetAttribute, &value, bound.id, 0)) {
      HOLDS(cuDeviceGetAttribute, (std::string(bound.name) + " value").c_str(),
            value >= bound.least && value <= bound.most, "%d, expected %d to %d", value,
            bound.least, bound.most);
    }
  }
  // Abilities that are missing remotely must be reported as missing.
  if (!native()) {
    for (const auto id :
         {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
          CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
          CU_DEVICE_ATTRIBUTE_NUMA_CONFIG}) {
      CALL(std::to_string(int(id)).c_str(), CUDA_SUCCESS, cuDeviceGetAttribute, &value, id, 0);
      EQUAL(cuDeviceGetAttribute, ("missing: " + std::to_string(int(id))).c_str(), value, 0);
    }
  }
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value,
       static_cast<CUdevice_attribute>(100000), 0);
  CALL("attribute 0", CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value,
       static_cast<CUdevice_attribute>(0), 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute, &value,
       CU_DEVICE_ATTRIBUTE_WARP_SIZE, 4711);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, nullptr,
       CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
  CUdevprop properties = {};
  CALL("properties", CUDA_SUCCESS, cuDeviceGetProperties, &properties, 0);
  EQUAL(cuDeviceGetProperties, "threads of a block", properties.maxThreadsPerBlock, 1024);
  EQUAL(cuDeviceGetProperties, "width of a warp", properties.SIMDWidth, 32);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetProperties, nullptr, 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetProperties, &properties, 4711);
  int supported = -1;
  CALL("SM_COUNT", CUDA_SUCCESS, cuDeviceGetExecAffinitySupport, &supported,
       CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
}

void PrimaryContext() {
  SETUP(cuInit, 0);
  unsigned flags = 99;
  int active = 99;
  CALL("at first", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "inactive at first", active, 0);
  CALL("before it is active", CUDA_SUCCESS, cuDevicePrimaryCtxSetFlags, 0,
       CU_CTX_SCHED_BLOCKING_SYNC);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags, 0, 0x80000000u);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxSetFlags, 4711, 0);
  CALL("without a retain", CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease, 0);
  CUcontext context = nullptr, again = nullptr;
  CALL("first", CUDA_SUCCESS, cuDevicePrimaryCtxRetain, &context, 0);
  CALL("second", CUDA_SUCCESS, cuDevicePrimaryCtxRetain, &again, 0);
  HOLDS(cuDevicePrimaryCtxRetain, "gives the same context", context == again && context != nullptr,
        "%p and %p", static_cast<void*>(context), static_cast<void*>(again));
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain, &again, 4711);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain, nullptr, 0);
  CALL("retained", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "active when retained", active, 1);
  EQUAL(cuDevicePrimaryCtxGetState, "flags that were set", flags, CU_CTX_SCHED_BLOCKING_SYNC);
  CUcontext current = Garbage<CUcontext>();
  CALL("not made current by a retain", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxGetCurrent, "none after a retain", current == nullptr, "%p",
        static_cast<void*>(current));
  CALL("one of two", CUDA_SUCCESS, cuDevicePrimaryCtxRelease, 0);
  CALL("one left", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "active while retained once", active, 1);
  CALL("the last", CUDA_SUCCESS, cuDevicePrimaryCtxRelease, 0);
  CALL("none left", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "inactive after the last release", active, 0);
  CALL("one too many", CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease, 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease, 4711);
}

void Reset() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  CUmodule module;
  SETUP(cuMemAlloc, &memory, 4096);
  if (!LoadModule(&module)) return;
  CUdeviceptr step = 0;
  size_t size = 0;
  const unsigned changed = 1000;
  SETUP(cuModuleGetGlobal, &step, &size, module, "step");
  SETUP(cuMemcpyHtoD, step, &changed, 4);
  CALL("active", CUDA_SUCCESS, cuDevicePrimaryCtxReset, 0);
  unsigned flags;
  int active = 99;
  CALL("after a reset", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "inactive after a reset", active, 0);
  unsigned version;
  CALL("after a reset", CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion, g_context, &version);
  CALL("the current one after a reset", CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxGetApiVersion,
       nullptr, &version);
  CUcontext context;
  CALL("after a reset", CUDA_SUCCESS, cuDevicePrimaryCtxRetain, &context, 0);
  CALL("after a reset", CUDA_SUCCESS, cuCtxSetCurrent, context);
  CALL("a retain of before a reset", CUDA_SUCCESS, cuDevicePrimaryCtxRelease, 0);
  CALL("retained before and after", CUDA_SUCCESS, cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EQUAL(cuDevicePrimaryCtxGetState, "active while retained after a reset", active, 1);
  CALL("memory of before a reset", CUDA_ERROR_INVALID_VALUE, cuMemFree, memory);
  if (!LoadModule(&module)) return;
  unsigned value = 0;
  CALL("after a reset", CUDA_SUCCESS, cuModuleGetGlobal, &step, &size, module, "step");
  CALL("after a reset", CUDA_SUCCESS, cuMemcpyDtoH, &value, step, 4);
  EQUAL(cuDevicePrimaryCtxReset, "module variables begin anew", value, 7u);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset, 4711);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "devices",
             {{"queries", Queries},
              {"resources", Resources},
              {"attributes", Attributes},
              {"notifications", Notifications},
              {"logs", Logs},
              {"core_files", CoreFiles},
              {"primary_context", PrimaryContext},
              {"reset", Reset}});
}
