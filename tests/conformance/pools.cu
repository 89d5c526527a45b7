// Memory ordered by streams, and its pools.
#include "setting.h"

namespace conformance {
namespace {

void OnStream() {
  if (!Begin()) return;
  CUstream stream = nullptr, other = nullptr;
  CUdeviceptr memory = 0, second = 0;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  CALL("64 KiB", CUDA_SUCCESS, cuMemAllocAsync, &memory, 65536, stream);
  CALL("used on its stream", CUDA_SUCCESS, cuMemsetD8Async, memory, 0x42, 65536, stream);
  CALL("on its stream", CUDA_SUCCESS, cuMemFreeAsync, memory, stream);
  CALL("after a free", CUDA_SUCCESS, cuMemAllocAsync, &second, 65536, stream);
  CALL("another stream, ordered", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("on another stream", CUDA_SUCCESS, cuMemFreeAsync, second, other);
  CALL("64 KiB", CUDA_SUCCESS, cuMemAllocAsync, &memory, 65536, stream);
  CALL("after its stream", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("memory of a stream", CUDA_SUCCESS, cuMemFree, memory);
  SETUP(cuMemAlloc, &memory, 4096);
  CALL("memory of cuMemAlloc", CUDA_SUCCESS, cuMemFreeAsync, memory, stream);
  CALL("no such memory", CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync, kBadAddress, stream);
  CALL("null", CUDA_SUCCESS, cuMemFreeAsync, 0, stream);
  CALL("nothing", CUDA_SUCCESS, cuMemAllocAsync, &memory, 0, stream);
  CALL("more than there is", CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync, &memory, size_t{1} << 46,
       stream);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync, nullptr, 4096, stream);
  // NVIDIA's driver may crash on an invalid stream; ours must not.
  if (!native()) {
    CALL("wrong stream", CUDA_ERROR_INVALID_HANDLE, cuMemAllocAsync, &memory, 4096,
         Garbage<CUstream>());
  }
  CALL("per-thread stream", CUDA_SUCCESS, cuMemAllocAsync, &memory, 4096, CU_STREAM_PER_THREAD);
  CALL("per-thread stream", CUDA_SUCCESS, cuMemFreeAsync, memory, CU_STREAM_PER_THREAD);
  CALL("after all", CUDA_SUCCESS, cuCtxSynchronize);
}

CUmemPoolProps Properties() {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute id, const char* name) {
  uint64_t value = 0;
  CALL(name, CUDA_SUCCESS, cuMemPoolGetAttribute, pool, id, &value);
  return value;
}

void Pools() {
  if (!Begin()) return;
  CUmemoryPool first = nullptr, current = nullptr, pool = nullptr;
  CALL("device 0", CUDA_SUCCESS, cuDeviceGetDefaultMemPool, &first, 0);
  CALL("device 0", CUDA_SUCCESS, cuDeviceGetMemPool, &current, 0);
  HOLDS(cuDeviceGetMemPool, "is the default at first", first == current && first != nullptr,
        "another one");
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDefaultMemPool, &first, 4711);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDeviceGetMemPool, nullptr, 0);
  SETUP(cuDeviceGetDefaultMemPool, &first, 0);
  const CUmemPoolProps properties = Properties();
  CALL("of device 0", CUDA_SUCCESS, cuMemPoolCreate, &pool, &properties);
  CALL("own pool", CUDA_SUCCESS, cuDeviceSetMemPool, 0, pool);
  CALL("own pool", CUDA_SUCCESS, cuDeviceGetMemPool, &current, 0);
  HOLDS(cuDeviceSetMemPool, "is the current one then", current == pool, "another one");
  CALL("default pool", CUDA_SUCCESS, cuDeviceSetMemPool, 0, first);

  CUdeviceptr memory = 0;
  CALL("64 KiB", CUDA_SUCCESS, cuMemAllocFromPoolAsync, &memory, 65536, pool, nullptr);
  CALL("written", CUDA_SUCCESS, cuMemsetD8, memory, 1, 65536);
  HOLDS(cuMemPoolGetAttribute, "used memory",
        Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, "USED_MEM_CURRENT") >= 65536, "too low");
  HOLDS(cuMemPoolGetAttribute, "reserved memory",
        Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, "RESERVED_MEM_CURRENT") >= 65536,
        "too low");
  HOLDS(cuMemPoolGetAttribute, "used memory at most",
        Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, "USED_MEM_HIGH") >= 65536, "too low");
  Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, "RESERVED_MEM_HIGH");
  CUmemoryPool owner = nullptr;
  CALL("MEMPOOL_HANDLE", CUDA_SUCCESS, cuPointerGetAttribute, &owner,
       CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory);
  HOLDS(cuPointerGetAttribute, "pool of pool memory", owner == pool, "another one");
  CALL("pool memory", CUDA_SUCCESS, cuMemFreeAsync, memory, nullptr);
  CALL("after the free", CUDA_SUCCESS, cuStreamSynchronize, nullptr);
  EQUAL(cuMemPoolGetAttribute, "nothing used after the free",
        Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, "USED_MEM_CURRENT after"), 0u);
  uint64_t zero = 0, threshold = 1 << 20;
  CALL("USED_MEM_HIGH to 0", CUDA_SUCCESS, cuMemPoolSetAttribute, pool,
       CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero);
  EQUAL(cuMemPoolSetAttribute, "the high mark begins anew",
        Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, "USED_MEM_HIGH after"), 0u);
  uint64_t one = 1;
  CALL("USED_MEM_HIGH to 1", CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute, pool,
       CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one);
  CALL("USED_MEM_CURRENT", CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute, pool,
       CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero);
  CALL("RELEASE_THRESHOLD", CUDA_SUCCESS, cuMemPoolSetAttribute, pool,
       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  EQUAL(cuMemPoolGetAttribute, "release threshold as set",
        Attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, "RELEASE_THRESHOLD"), threshold);
  int reuse = -1;
  CALL("REUSE_FOLLOW_EVENT_DEPENDENCIES", CUDA_SUCCESS, cuMemPoolGetAttribute, pool,
       CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse);
  EQUAL(cuMemPoolGetAttribute, "reuse is allowed at first", reuse, 1);
  reuse = 0;
  CALL("REUSE_ALLOW_OPPORTUNISTIC", CUDA_SUCCESS, cuMemPoolSetAttribute, pool,
       CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse);
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute, pool,
       static_cast<CUmemPool_attribute>(4711), &zero);
  CALL("to nothing", CUDA_SUCCESS, cuMemPoolTrimTo, pool, 0);
  EQUAL(cuMemPoolTrimTo, "nothing is reserved then",
        Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, "RESERVED_MEM_CURRENT after"), 0u);

  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CALL("own device", CUDA_SUCCESS, cuMemPoolGetAccess, &access, pool, &location);
  EQUAL(cuMemPoolGetAccess, "the own device may do all", access,
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc wanted = {};
  wanted.location = location;
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CALL("own device", CUDA_SUCCESS, cuMemPoolSetAccess, pool, &wanted, 1);
  wanted.location.id = 4711;
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess, pool, &wanted, 1);

  // Memory outlives its pool.
  CALL("before the pool goes", CUDA_SUCCESS, cuMemAllocFromPoolAsync, &memory, 65536, pool,
       nullptr);
  CALL("with memory in use", CUDA_SUCCESS, cuMemPoolDestroy, pool);
  CALL("memory of a pool that is gone", CUDA_SUCCESS, cuMemsetD8, memory, 2, 65536);
  CALL("memory of a pool that is gone", CUDA_SUCCESS, cuMemFreeAsync, memory, nullptr);
  CALL("after all", CUDA_SUCCESS, cuCtxSynchronize);
  CALL("the default one", CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy, first);
  CALL("none", CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy, nullptr);
  CALL("no pool", CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync, &memory, 65536, nullptr,
       nullptr);
  CALL("no properties", CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate, &pool, nullptr);
  CUmemPoolProps wrong = properties;
  wrong.location.id = 4711;
  CALL("wrong device", CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate, &pool, &wrong);
}

// Makes the same checks with locations, as CUDA 13 asks.
void ByLocation() {
  if (!Begin()) return;
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool first = nullptr, current = nullptr;
  CALL("device 0", CUDA_SUCCESS, cuMemGetDefaultMemPool, &first, &location,
       CU_MEM_ALLOCATION_TYPE_PINNED);
  CALL("device 0", CUDA_SUCCESS, cuMemGetMemPool, &current, &location,
       CU_MEM_ALLOCATION_TYPE_PINNED);
  HOLDS(cuMemGetMemPool, "is the default at first", first == current, "another one");
  CALL("device 0", CUDA_SUCCESS, cuMemSetMemPool, &location, CU_MEM_ALLOCATION_TYPE_PINNED, first);
}

void Export() {
  if (!Begin()) return;
  CUmemoryPool pool = nullptr;
  int descriptor = -1;
  SETUP(cuDeviceGetDefaultMemPool, &pool, 0);
  CALL("a pool that cannot", CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle,
       &descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(
      argc, argv, "pools",
      {{"on_stream", OnStream}, {"pools", Pools}, {"by_location", ByLocation}, {"export", Export}});
}
