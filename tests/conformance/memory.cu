// Device memory: allocating, freeing, extents, free memory, and pointer attributes.
#include "setting.h"

namespace conformance {
namespace {

void WithoutContext() {
  SETUP(cuInit, 0);
  CUdeviceptr address = 0;
  size_t free_bytes = 0, total = 0;
  CALL("no context", CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc, &address, 256);
  CALL("no context", CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo, &free_bytes, &total);
  CALL("no context", CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8, 0x1000, 0, 16);
}

void Allocate() {
  if (!Begin()) return;
  CUdeviceptr address = 0, other = 0;
  CALL("4 KiB", CUDA_SUCCESS, cuMemAlloc, &address, 4096);
  HOLDS(cuMemAlloc, "is aligned to 256", address != 0 && address % 256 == 0, "%llx", address);
  CALL("1 byte", CUDA_SUCCESS, cuMemAlloc, &other, 1);
  HOLDS(cuMemAlloc, "1 byte is aligned to 256", other % 256 == 0, "%llx", other);
  CALL("64 MiB", CUDA_SUCCESS, cuMemFree, other);
  CALL("64 MiB", CUDA_SUCCESS, cuMemAlloc, &other, size_t{64} << 20);
  CALL("64 MiB", CUDA_SUCCESS, cuMemFree, other);
  CALL("no size", CUDA_ERROR_INVALID_VALUE, cuMemAlloc, &other, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAlloc, nullptr, 256);
  CALL("more than there is", CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &other, size_t{1} << 46);
  CALL("null", CUDA_SUCCESS, cuMemFree, 0);
  CALL("inside an allocation", CUDA_ERROR_INVALID_VALUE, cuMemFree, address + 256);
  CALL("no allocation", CUDA_ERROR_INVALID_VALUE, cuMemFree, kBadAddress);
  CALL("an allocation", CUDA_SUCCESS, cuMemFree, address);
  CALL("twice", CUDA_ERROR_INVALID_VALUE, cuMemFree, address);

  size_t pitch = 0;
  CALL("100 bytes by 10 rows", CUDA_SUCCESS, cuMemAllocPitch, &address, &pitch, 100, 10, 4);
  HOLDS(cuMemAllocPitch, "pitch holds a row, aligned", pitch >= 100 && pitch % 128 == 0, "%zu",
        pitch);
  CALL("pitched", CUDA_SUCCESS, cuMemFree, address);
  CALL("element size 3", CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch, &address, &pitch, 100, 10, 3);
  CALL("no width", CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch, &address, &pitch, 0, 10, 4);
  CALL("no height", CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch, &address, &pitch, 100, 0, 4);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch, &address, nullptr, 4, 4, 4);
}

void Extent() {
  if (!Begin()) return;
  CUdeviceptr address = 0, base = 0;
  size_t size = 0, free_bytes = 0, total = 0, after = 0;
  CALL("both", CUDA_SUCCESS, cuMemGetInfo, &free_bytes, &total);
  HOLDS(cuMemGetInfo, "free is within total", free_bytes > 0 && free_bytes <= total, "%zu of %zu",
        free_bytes, total);
  SETUP(cuMemAlloc, &address, size_t{256} << 20);
  CALL("after an allocation", CUDA_SUCCESS, cuMemGetInfo, &after, &total);
  HOLDS(cuMemGetInfo, "less is free after an allocation", after + (size_t{256} << 20) <= free_bytes,
        "%zu, then %zu", free_bytes, after);
  CALL("nothing wanted", CUDA_SUCCESS, cuMemGetInfo, nullptr, nullptr);
  CALL("inside", CUDA_SUCCESS, cuMemGetAddressRange, &base, &size, address + 12345);
  EQUAL(cuMemGetAddressRange, "base", base, address);
  EQUAL(cuMemGetAddressRange, "size", size, size_t{256} << 20);
  CALL("only the base wanted", CUDA_SUCCESS, cuMemGetAddressRange, &base, nullptr, address);
  CALL("only the size wanted", CUDA_SUCCESS, cuMemGetAddressRange, nullptr, &size, address);
  CALL("no allocation", CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange, &base, &size, kBadAddress);
  HOLDS(cuMemGetAddressRange, "nothing for no allocation", base == 0 && size == 0,
        "%llx and %zu bytes", base, size);
  CALL("freed", CUDA_SUCCESS, cuMemFree, address);
  CALL("freed", CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange, &base, &size, address);
}

template <typename T>
T Attribute(CUpointer_attribute id, const char* name, CUdeviceptr address) {
  T value = {};
  CALL(name, CUDA_SUCCESS, cuPointerGetAttribute, &value, id, address);
  return value;
}

void PointerAttributes() {
  if (!Begin()) return;
  CUdeviceptr address = 0;
  SETUP(cuMemAlloc, &address, 8192);
  const CUdeviceptr inside = address + 100;
  HOLDS(cuPointerGetAttribute, "context of device memory",
        Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, "CONTEXT", inside) == g_context,
        "another context");
  EQUAL(cuPointerGetAttribute, "type of device memory",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE", inside),
        CU_MEMORYTYPE_DEVICE);
  EQUAL(cuPointerGetAttribute, "device pointer of device memory",
        Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER", inside),
        inside);
  EQUAL(cuPointerGetAttribute, "device of device memory",
        Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL", inside), 0);
  EQUAL(cuPointerGetAttribute, "device memory is not managed",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED", inside) & 1, 0);
  EQUAL(cuPointerGetAttribute, "start of the range",
        Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR", inside),
        address);
  EQUAL(cuPointerGetAttribute, "size of the range",
        Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE", inside), 8192);
  EQUAL(cuPointerGetAttribute, "device memory is mapped",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED", inside) & 1, 1);
  HOLDS(cuPointerGetAttribute, "buffer id is set",
        Attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, "BUFFER_ID", inside) != 0,
        "is 0");
  Attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS", inside);
  Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "IS_LEGACY_CUDA_IPC_CAPABLE",
                      inside);
  Attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES",
                                inside);
  Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "MEMPOOL_HANDLE", inside);
  EQUAL(cuPointerGetAttribute, "access flags of device memory",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS", inside),
        CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  void* host = nullptr;
  CALL("host pointer of device memory", CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &host,
       CU_POINTER_ATTRIBUTE_HOST_POINTER, address);
  unsigned type = 0;
  int local = 0;
  CALL("memory unknown to CUDA", CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &type,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local));
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &type,
       static_cast<CUpointer_attribute>(4711), address);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, nullptr,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);

  CUdeviceptr device_pointer = 0;
  CUpointer_attribute ids[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  void* places[] = {&type, &device_pointer};
  CALL("of device memory", CUDA_SUCCESS, cuPointerGetAttributes, 2, ids, places, inside);
  EQUAL(cuPointerGetAttributes, "type", type, CU_MEMORYTYPE_DEVICE);
  EQUAL(cuPointerGetAttributes, "device pointer", device_pointer, inside);
  type = 99;
  CALL("memory unknown to CUDA", CUDA_SUCCESS, cuPointerGetAttributes, 2, ids, places,
       reinterpret_cast<CUdeviceptr>(&local));
  EQUAL(cuPointerGetAttributes, "no type for unknown memory", type, 0);
  CALL("nothing asked", CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes, 0, ids, places, inside);

  const unsigned on = 1;
  CALL("SYNC_MEMOPS", CUDA_SUCCESS, cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
       address);
  EQUAL(cuPointerGetAttribute, "SYNC_MEMOPS as set",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS set", address) & 1, 1);
  CALL("read-only attribute", CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute, &on,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  CALL("no allocation", CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute, &on,
       CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kBadAddress);
}

void HostPointerAttributes() {
  if (!Begin()) return;
  void* host = nullptr;
  SETUP(cuMemAllocHost, &host, 4096);
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(host) + 16;
  EQUAL(cuPointerGetAttribute, "type of pinned memory",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE of pinned", address),
        CU_MEMORYTYPE_HOST);
  HOLDS(cuPointerGetAttribute, "host pointer of pinned memory",
        Attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER of pinned", address) ==
            static_cast<char*>(host) + 16,
        "another address");
  EQUAL(cuPointerGetAttribute, "start of pinned memory",
        Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR of pinned",
                               address),
        reinterpret_cast<CUdeviceptr>(host));
  CALL("pinned", CUDA_SUCCESS, cuMemFreeHost, host);
}

// Programs read a little before and behind their allocations, such as the rows at the borders of a
// grid, and never use what they read. NVIDIA's driver mostly has other memory there: the memory
// behind depends on earlier allocations, and there is none before a large allocation.
void Strays() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction affine = nullptr;
  if (!LoadModule(&module) || !Kernel(&affine, module, "affine")) return;
  CUdeviceptr out = 0;
  constexpr size_t kMiB = 1 << 20;
  const auto access = [&](CUdeviceptr to, CUdeviceptr from) {
    unsigned one = 1, zero = 0, count = 32;
    void* parameters[] = {&to, &from, &one, &zero, &count};
    const CUresult launched =
        CU(cuLaunchKernel)(affine, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    return launched != CUDA_SUCCESS ? launched : CU(cuCtxSynchronize)();
  };
  for (const size_t bytes : {size_t{512}, kMiB, 2 * kMiB, 64 * kMiB}) {
    CUdeviceptr memory = 0;
    SETUP(cuMemAlloc, &memory, bytes);
    if (out == 0) SETUP(cuMemAlloc, &out, 4096);
    for (const size_t distance : {size_t{4096}, kMiB}) {
      if (!native() || bytes < 64 * kMiB) {
        EQUAL(cuLaunchKernel, "reads before an allocation", access(out, memory - distance), 0);
      }
      if (native()) continue;
      EQUAL(cuLaunchKernel, "reads behind an allocation",
            access(out, memory + bytes + distance - 128), 0);
    }
  }
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "memory",
             {{"without_context", WithoutContext},
              {"allocate", Allocate},
              {"extent", Extent},
              {"pointer_attributes", PointerAttributes},
              {"host_pointer_attributes", HostPointerAttributes},
              {"strays", Strays}});
}
