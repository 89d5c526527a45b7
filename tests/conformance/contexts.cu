// Contexts: creating, the stack of current ones, flags, limits, synchronization.
#include "setting.h"

// Versions that the driver exports and cuda.h no longer declares.
extern "C" CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
extern "C" CUresult cuCtxCreate_v3(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice);

namespace conformance {
namespace {

void Create() {
  SETUP(cuInit, 0);
  CUcontext first = nullptr, second = nullptr, current = nullptr;
  CALL("default", CUDA_SUCCESS, cuCtxCreate, &first, nullptr, 0, 0);
  CALL("the created one", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxCreate, "makes it current", current == first && first != nullptr, "another one");
  CALL_SYMBOL("third version", CUDA_SUCCESS, cuCtxCreate_v3, "cuCtxCreate_v3", &second, nullptr, 0,
              CU_CTX_SCHED_YIELD, 0);
  CUcontext old = nullptr;
  CALL_SYMBOL("second version", CUDA_SUCCESS, cuCtxCreate_v2, "cuCtxCreate_v2", &old, 0, 0);
  CALL("second version", CUDA_SUCCESS, cuCtxDestroy, old);
  unsigned flags = 0;
  CALL("of the second", CUDA_SUCCESS, cuCtxGetFlags, &flags);
  EQUAL(cuCtxGetFlags, "scheduling as created", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
  CUcontext popped = nullptr;
  CALL("the second", CUDA_SUCCESS, cuCtxPopCurrent, &popped);
  HOLDS(cuCtxPopCurrent, "gives the second", popped == second, "another one");
  CALL("below it", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxPopCurrent, "leaves the first", current == first, "another one");
  CALL("not current", CUDA_SUCCESS, cuCtxDestroy, second);
  CUdeviceptr memory = 0;
  CALL("in a created context", CUDA_SUCCESS, cuMemAlloc, &memory, 4096);
  CALL("in a created context", CUDA_SUCCESS, cuMemsetD8, memory, 1, 4096);
  CALL("in a created context", CUDA_SUCCESS, cuCtxSynchronize);
  CALL("current", CUDA_SUCCESS, cuCtxDestroy, first);
  current = Garbage<CUcontext>();
  CALL("after its end", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxDestroy, "none is current then", current == nullptr, "%p",
        static_cast<void*>(current));
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuCtxCreate, &first, nullptr, 0, 4711);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuCtxCreate, &first, nullptr, 0x80000000u, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxCreate, nullptr, nullptr, 0, 0);
  CALL("none", CUDA_ERROR_INVALID_VALUE, cuCtxDestroy, nullptr);
}

void Stack() {
  if (!Begin()) return;
  CUcontext other = nullptr, popped = nullptr, current = nullptr;
  SETUP(cuCtxCreate, &other, nullptr, 0, 0);
  CALL("again", CUDA_SUCCESS, cuCtxPushCurrent, g_context);
  CALL("pushed", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxPushCurrent, "makes it current", current == g_context, "another one");
  CALL("pushed", CUDA_SUCCESS, cuCtxPopCurrent, &popped);
  CALL("replaces the top", CUDA_SUCCESS, cuCtxSetCurrent, g_context);
  CALL("replaced", CUDA_SUCCESS, cuCtxPopCurrent, &popped);
  HOLDS(cuCtxSetCurrent, "replaces the top of the stack", popped == g_context, "another one");
  CALL("nowhere to write", CUDA_SUCCESS, cuCtxPopCurrent, nullptr);
  CALL("empty stack", CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent, &popped);
  CALL("none", CUDA_ERROR_INVALID_VALUE, cuCtxPushCurrent, nullptr);
  CALL("none", CUDA_SUCCESS, cuCtxSetCurrent, nullptr);
  CALL("none", CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize);
  CUdevice device = -1;
  CALL_SYMBOL("none", CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice, "cuCtxGetDevice", &device);
  unsigned flags = 0;
  CALL("none", CUDA_ERROR_INVALID_CONTEXT, cuCtxGetFlags, &flags);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent, nullptr);
  CALL("of a stack", CUDA_SUCCESS, cuCtxDestroy, other);
}

void Queries() {
  if (!Begin()) return;
  CUdevice device = -1;
  CALL("current", CUDA_SUCCESS, cuCtxGetDevice, &device);
  EQUAL(cuCtxGetDevice, "device", device, g_device);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetDevice, nullptr);
  unsigned version = 0, flags = 0;
  CALL("of the primary context", CUDA_SUCCESS, cuCtxGetApiVersion, g_context, &version);
  HOLDS(cuCtxGetApiVersion, "is 3010 or later", version >= 3010, "%u", version);
  CALL("of the current one", CUDA_SUCCESS, cuCtxGetApiVersion, nullptr, &version);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetApiVersion, g_context, nullptr);
  unsigned long long id = 0, other_id = 0;
  CUcontext other = nullptr;
  CALL("of the primary context", CUDA_SUCCESS, cuCtxGetId, g_context, &id);
  SETUP(cuCtxCreate, &other, nullptr, 0, 0);
  CALL("of another", CUDA_SUCCESS, cuCtxGetId, other, &other_id);
  HOLDS(cuCtxGetId, "ids differ", id != other_id, "both are %llu", id);
  CALL("of the current one", CUDA_SUCCESS, cuCtxGetId, nullptr, &id);
  EQUAL(cuCtxGetId, "of the current one", id, other_id);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetId, other, nullptr);
  CALL("another", CUDA_SUCCESS, cuCtxDestroy, other);
  SETUP(cuCtxSetCurrent, g_context);
  CALL("current", CUDA_SUCCESS, cuCtxGetFlags, &flags);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetFlags, nullptr);
  CALL("spinning", CUDA_SUCCESS, cuCtxSetFlags, CU_CTX_SCHED_SPIN);
  CALL("spinning", CUDA_SUCCESS, cuCtxGetFlags, &flags);
  EQUAL(cuCtxSetFlags, "are there then", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCtxSetFlags, 0x80000000u);
  int least = 99, greatest = 99;
  CALL("range", CUDA_SUCCESS, cuCtxGetStreamPriorityRange, &least, &greatest);
  HOLDS(cuCtxGetStreamPriorityRange, "least is 0, greatest below", least == 0 && greatest < 0,
        "%d to %d", least, greatest);
  CALL("only one wanted", CUDA_SUCCESS, cuCtxGetStreamPriorityRange, nullptr, &greatest);
  CUfunc_cache cache;
  CALL("default", CUDA_SUCCESS, cuCtxGetCacheConfig, &cache);
  CALL("more shared", CUDA_SUCCESS, cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_SHARED);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCtxSetCacheConfig, static_cast<CUfunc_cache>(77));
  CALL("whole", CUDA_SUCCESS, cuCtxResetPersistingL2Cache);
  CUsharedconfig banks;
  CALL("default", CUDA_SUCCESS, cuCtxGetSharedMemConfig, &banks);
  EQUAL(cuCtxGetSharedMemConfig, "4 bytes", banks, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  CALL("8 bytes", CUDA_SUCCESS, cuCtxSetSharedMemConfig, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCtxSetSharedMemConfig,
       static_cast<CUsharedconfig>(77));
  CALL("after 8 bytes", CUDA_SUCCESS, cuCtxGetSharedMemConfig, &banks);
  EQUAL(cuCtxGetSharedMemConfig, "still 4 bytes", banks, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  CALL("the primary context", CUDA_SUCCESS, cuCtxSynchronize_v2, g_context);
  CALL("the current one", CUDA_SUCCESS, cuCtxSynchronize);
  CALL("the primary context", CUDA_SUCCESS, cuCtxGetDevice_v2, &device, g_context);
}

void Limits() {
  if (!Begin()) return;
  size_t value = 0;
  const struct {
    CUlimit id;
    const char* name;
    size_t fresh, wanted;
  } kSettable[] = {
      {CU_LIMIT_STACK_SIZE, "STACK_SIZE", 1024, 4096},
      {CU_LIMIT_PRINTF_FIFO_SIZE, "PRINTF_FIFO_SIZE", 0, size_t{2} << 20},
      {CU_LIMIT_MALLOC_HEAP_SIZE, "MALLOC_HEAP_SIZE", size_t{8} << 20, size_t{16} << 20},
  };
  for (const auto& limit : kSettable) {
    const std::string name = limit.name;
    if (CALL(limit.name, CUDA_SUCCESS, cuCtxGetLimit, &value, limit.id)) {
      HOLDS(cuCtxGetLimit, (name + " at first").c_str(),
            limit.fresh == 0 ? value > 0 : value == limit.fresh, "%zu, expected %zu", value,
            limit.fresh);
    }
    if (CALL(limit.name, CUDA_SUCCESS, cuCtxSetLimit, limit.id, limit.wanted)) {
      CALL((name + " set").c_str(), CUDA_SUCCESS, cuCtxGetLimit, &value, limit.id);
      HOLDS(cuCtxSetLimit, (name + " is there then").c_str(), value >= limit.wanted,
            "%zu, expected %zu", value, limit.wanted);
    }
  }
  CALL("MAX_L2_FETCH_GRANULARITY", CUDA_SUCCESS, cuCtxGetLimit, &value,
       CU_LIMIT_MAX_L2_FETCH_GRANULARITY);
  CALL("PERSISTING_L2_CACHE_SIZE", CUDA_SUCCESS, cuCtxGetLimit, &value,
       CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
  CALL("DEV_RUNTIME_SYNC_DEPTH", CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit, &value,
       CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH);
  CALL("DEV_RUNTIME_SYNC_DEPTH", CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit,
       CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2);
  CALL("SHMEM_SIZE", CUDA_ERROR_NOT_PERMITTED, cuCtxSetLimit, CU_LIMIT_SHMEM_SIZE, 4096);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit, &value, static_cast<CUlimit>(99));
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit, static_cast<CUlimit>(99), 1);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit, nullptr, CU_LIMIT_STACK_SIZE);
}

void Events() {
  if (!Begin()) return;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, 4096);
  SETUP(cuEventCreate, &event, CU_EVENT_DEFAULT);
  CALL("the context", CUDA_SUCCESS, cuCtxRecordEvent, g_context, event);
  CALL("recorded by its context", CUDA_SUCCESS, cuEventSynchronize, event);
  CALL("the context", CUDA_SUCCESS, cuCtxWaitEvent, g_context, event);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent, g_context, nullptr);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuCtxWaitEvent, g_context, nullptr);
  CALL("event", CUDA_SUCCESS, cuEventDestroy, event);
}

void Affinity() {
  if (!Begin()) return;
  CUexecAffinityParam parameter = {};
  int processors = 0;
  SETUP(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g_device);
  CALL("current", CUDA_SUCCESS, cuCtxGetExecAffinity, &parameter, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  EQUAL(cuCtxGetExecAffinity, "all multiprocessors", parameter.param.smCount.val, processors);
}

void Attach() {
  if (!Begin()) return;
  CUcontext context = nullptr;
  SETUP(cuCtxCreate, &context, nullptr, 0, 0);
  CUcontext attached = nullptr;
  CALL("current", CUDA_SUCCESS, cuCtxAttach, &attached, 0);
  HOLDS(cuCtxAttach, "gives the current one", attached == context, "another one");
  CALL("flags other than 0", CUDA_ERROR_INVALID_VALUE, cuCtxAttach, &attached, 1);
  CALL("attached", CUDA_SUCCESS, cuCtxDetach, context);
  CALL("last use", CUDA_SUCCESS, cuCtxDetach, context);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "contexts",
             {{"create", Create},
              {"stack", Stack},
              {"queries", Queries},
              {"limits", Limits},
              {"events", Events},
              {"affinity", Affinity},
              {"attach", Attach}});
}
