// Memory that the application maps by itself: addresses, handles, mappings, access.
#include "setting.h"

namespace conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kUnit = 2 * kMiB;

CUmemAllocationProp Properties() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

CUmemAccessDesc Access(CUmemAccess_flags flags) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = flags;
  return access;
}

const CUmemAccessDesc kReadWrite = Access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
const CUmemAccessDesc kRead = Access(CU_MEM_ACCESS_FLAGS_PROT_READ);
const CUmemAccessDesc kNothing = Access(CU_MEM_ACCESS_FLAGS_PROT_NONE);

// Sets `words` words at `address` and reads the last one back.
unsigned Filled(CUdeviceptr address, unsigned value, size_t words) {
  unsigned got = ~value;
  CALL("mapped memory", CUDA_SUCCESS, cuMemsetD32, address, value, words);
  CALL("mapped memory", CUDA_SUCCESS, cuMemcpyDtoH, &got, address + 4 * (words - 1), 4);
  return got;
}

void Granularity() {
  if (!Begin()) return;
  CUmemAllocationProp properties = Properties();
  size_t granularity = 0;
  CALL("minimum", CUDA_SUCCESS, cuMemGetAllocationGranularity, &granularity, &properties,
       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  EQUAL(cuMemGetAllocationGranularity, "minimum", granularity, kUnit);
  CALL("recommended", CUDA_SUCCESS, cuMemGetAllocationGranularity, &granularity, &properties,
       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  EQUAL(cuMemGetAllocationGranularity, "recommended", granularity, kUnit);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity, nullptr,
       &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CALL("no properties", CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity, &granularity,
       nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  int supported = 0;
  CALL("virtual memory", CUDA_SUCCESS, cuDeviceGetAttribute, &supported,
       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, g_device);
  EQUAL(cuDeviceGetAttribute, "virtual memory", supported, 1);
}

// Memory of the host has no handles here, and the attributes say so.
void Hosts() {
  if (!Begin() || native()) return;
  for (const auto type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
                          CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}) {
    CUmemAllocationProp properties = Properties();
    properties.location.type = type;
    CUmemGenericAllocationHandle handle = 0;
    size_t granularity = 0;
    CALL("host", CUDA_ERROR_NOT_SUPPORTED, cuMemCreate, &handle, kUnit, &properties, 0);
    CALL("host", CUDA_ERROR_NOT_SUPPORTED, cuMemGetAllocationGranularity, &granularity, &properties,
         CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUmemPoolProps pool_properties = {};
    pool_properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool_properties.location.type = type;
    CUmemoryPool pool = nullptr;
    CALL("host", CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate, &pool, &pool_properties);
  }
  for (const auto id : {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
                        CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
                        CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED}) {
    int supported = 9;
    CALL("host", CUDA_SUCCESS, cuDeviceGetAttribute, &supported, id, g_device);
    EQUAL(cuDeviceGetAttribute, "memory of the host", supported, 0);
  }
}

void Addresses() {
  if (!Begin()) return;
  CUdeviceptr address = 0, other = 0;
  CALL("64 MiB", CUDA_SUCCESS, cuMemAddressReserve, &address, 64 * kMiB, 0, 0, 0);
  HOLDS(cuMemAddressReserve, "a multiple of 2 MiB", address != 0 && address % kUnit == 0, "%llx",
        address);
  CALL("64 GiB", CUDA_SUCCESS, cuMemAddressReserve, &other, size_t{64} << 30, 0, 0, 0);
  CALL("64 GiB", CUDA_SUCCESS, cuMemAddressFree, other, size_t{64} << 30);
  CALL("aligned", CUDA_SUCCESS, cuMemAddressReserve, &other, 64 * kMiB, 256 * kMiB, 0, 0);
  EQUAL(cuMemAddressReserve, "alignment", other % (256 * kMiB), 0);
  CALL("aligned", CUDA_SUCCESS, cuMemAddressFree, other, 64 * kMiB);
  CALL("at a wanted address", CUDA_SUCCESS, cuMemAddressReserve, &other, 64 * kMiB, 0, other, 0);
  CALL("at a wanted address", CUDA_SUCCESS, cuMemAddressFree, other, 64 * kMiB);
  CALL("where something is already", CUDA_SUCCESS, cuMemAddressReserve, &other, 64 * kMiB, 0,
       address, 0);
  HOLDS(cuMemAddressReserve, "is elsewhere then", other != address, "the same");
  CALL("where something is already", CUDA_SUCCESS, cuMemAddressFree, other, 64 * kMiB);
  CALL("nothing", CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &other, 0, 0, 0, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, nullptr, kUnit, 0, 0, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &other, kUnit, 0, 0, 64);
  CALL("uneven size", CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &other, kUnit + 1, 0, 0, 0);
  CALL("uneven alignment", CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &other, kUnit, kUnit + 1,
       0, 0);
  CALL("a part", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, address, kUnit);
  CALL("64 MiB", CUDA_SUCCESS, cuMemAddressFree, address, 64 * kMiB);
  CALL("freed before", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, address, 64 * kMiB);
}

void Handles() {
  if (!Begin()) return;
  CUmemAllocationProp properties = Properties(), got = {};
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CALL("2 MiB", CUDA_SUCCESS, cuMemCreate, &handle, kUnit, &properties, 0);
  CALL("of a handle", CUDA_SUCCESS, cuMemGetAllocationPropertiesFromHandle, &got, handle);
  HOLDS(cuMemGetAllocationPropertiesFromHandle, "properties",
        got.type == properties.type && got.location.type == properties.location.type &&
            got.location.id == 0,
        "type %d, location %d", int(got.type), int(got.location.type));
  CALL("2 MiB", CUDA_SUCCESS, cuMemRelease, handle);
  CALL("22 MiB", CUDA_SUCCESS, cuMemCreate, &handle, 22 * kMiB, &properties, 0);
  CALL("22 MiB", CUDA_SUCCESS, cuMemRelease, handle);
  size_t before = 0, with = 0, after = 0, total = 0;
  SETUP(cuMemGetInfo, &before, &total);
  CALL("64 MiB", CUDA_SUCCESS, cuMemCreate, &handle, 64 * kMiB, &properties, 0);
  SETUP(cuMemGetInfo, &with, &total);
  HOLDS(cuMemCreate, "takes memory", before - with >= 64 * kMiB, "%zu, then %zu", before, with);
  CALL("64 MiB", CUDA_SUCCESS, cuMemRelease, handle);
  SETUP(cuMemGetInfo, &after, &total);
  HOLDS(cuMemRelease, "gives it back", after >= with + 64 * kMiB, "%zu, then %zu", with, after);
  CALL("more than there is", CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &again, size_t{1} << 42,
       &properties, 0);
  CALL("nothing", CUDA_ERROR_INVALID_VALUE, cuMemCreate, &again, 0, &properties, 0);
  CALL("uneven size", CUDA_ERROR_INVALID_VALUE, cuMemCreate, &again, kUnit / 2, &properties, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemCreate, nullptr, kUnit, &properties, 0);
  CALL("no properties", CUDA_ERROR_INVALID_VALUE, cuMemCreate, &again, kUnit, nullptr, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuMemCreate, &again, kUnit, &properties, 64);
  properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  CALL("no type", CUDA_ERROR_INVALID_VALUE, cuMemCreate, &again, kUnit, &properties, 0);
}

void Mappings() {
  if (!Begin()) return;
  const CUmemAllocationProp properties = Properties();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle first = 0, second = 0, held = 0;
  SETUP(cuMemAddressReserve, &address, 64 * kMiB, 0, 0, 0);
  SETUP(cuMemCreate, &first, kUnit, &properties, 0);
  SETUP(cuMemCreate, &second, 20 * kMiB, &properties, 0);
  CALL("2 MiB", CUDA_SUCCESS, cuMemMap, address, kUnit, 0, first, 0);
  CALL("20 MiB behind it", CUDA_SUCCESS, cuMemMap, address + kUnit, 20 * kMiB, 0, second, 0);
  CALL("both", CUDA_SUCCESS, cuMemSetAccess, address, 22 * kMiB, &kReadWrite, 1);
  EQUAL(cuMemMap, "what was written across both is there",
        Filled(address, 0x12345678, 22 * kMiB / 4), 0x12345678u);
  CALL("over a mapping", CUDA_ERROR_INVALID_VALUE, cuMemMap, address, kUnit, 0, first, 0);
  CALL("a part of a handle", CUDA_ERROR_NOT_SUPPORTED, cuMemMap, address + 32 * kMiB, kUnit, 0,
       second, 0);
  CALL("outside of what is reserved", CUDA_ERROR_INVALID_VALUE, cuMemMap, address + 64 * kMiB,
       kUnit, 0, first, 0);
  CALL("uneven address", CUDA_ERROR_INVALID_VALUE, cuMemMap, address + 32 * kMiB + 4096, kUnit, 0,
       first, 0);
  CALL("a part of a mapping", CUDA_ERROR_INVALID_VALUE, cuMemUnmap, address + kUnit, kUnit);
  CALL("nothing mapped", CUDA_SUCCESS, cuMemUnmap, address + 32 * kMiB, kUnit);
  CALL("addresses in use", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, address, 64 * kMiB);

  CALL("at a mapped address", CUDA_SUCCESS, cuMemRetainAllocationHandle, &held,
       reinterpret_cast<void*>(address + kUnit + 100));
  CALL("of the handle", CUDA_SUCCESS, cuMemRelease, second);
  CALL("held", CUDA_SUCCESS, cuMemRelease, held);
  EQUAL(cuMemRelease, "a mapping keeps its memory", Filled(address + kUnit, 7, 1024), 7u);
  CALL("nothing mapped", CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle, &held,
       reinterpret_cast<void*>(address + 32 * kMiB));

  CALL("both", CUDA_SUCCESS, cuCtxSynchronize);
  CALL("both", CUDA_SUCCESS, cuMemUnmap, address, 22 * kMiB);
  CALL("mapped again", CUDA_SUCCESS, cuMemMap, address, kUnit, 0, first, 0);
  CALL("mapped again", CUDA_SUCCESS, cuMemSetAccess, address, kUnit, &kReadWrite, 1);
  unsigned got = 0;
  CALL("mapped again", CUDA_SUCCESS, cuMemcpyDtoH, &got, address + 64, 4);
  EQUAL(cuMemMap, "a handle keeps what was written", got, 0x12345678u);
  CALL("mapped again", CUDA_SUCCESS, cuMemUnmap, address, kUnit);
  CALL("the last one", CUDA_SUCCESS, cuMemRelease, first);
  CALL("empty again", CUDA_SUCCESS, cuMemAddressFree, address, 64 * kMiB);
}

void Access() {
  if (!Begin()) return;
  const CUmemAllocationProp properties = Properties();
  CUmemLocation location = properties.location;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  unsigned long long flags = 99;
  unsigned got = 0;
  SETUP(cuMemAddressReserve, &address, 64 * kMiB, 0, 0, 0);
  SETUP(cuMemCreate, &handle, kUnit, &properties, 0);
  SETUP(cuMemMap, address, kUnit, 0, handle, 0);
  CALL("before it is set", CUDA_SUCCESS, cuMemGetAccess, &flags, &location, address);
  EQUAL(cuMemGetAccess, "before it is set", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CALL("no access", CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH, &got, address, 4);
  CALL("all", CUDA_SUCCESS, cuMemSetAccess, address, kUnit, &kReadWrite, 1);
  CALL("all", CUDA_SUCCESS, cuMemGetAccess, &flags, &location, address + 100);
  EQUAL(cuMemGetAccess, "all", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EQUAL(cuMemSetAccess, "memory can be used", Filled(address, 5, 16), 5u);
  // Maps the same memory at another address, read-only.
  const CUdeviceptr twin = address + 32 * kMiB;
  CALL("at a second address", CUDA_SUCCESS, cuMemMap, twin, kUnit, 0, handle, 0);
  CALL("read-only", CUDA_SUCCESS, cuMemSetAccess, twin, kUnit, &kRead, 1);
  CALL("read-only", CUDA_SUCCESS, cuMemGetAccess, &flags, &location, twin);
  EQUAL(cuMemGetAccess, "read-only", flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CALL("read-only", CUDA_SUCCESS, cuMemcpyDtoH, &got, twin, 4);
  EQUAL(cuMemMap, "one handle at two addresses", got, 5u);
  CALL("none", CUDA_SUCCESS, cuMemSetAccess, twin, kUnit, &kNothing, 1);
  CALL("all again", CUDA_SUCCESS, cuMemSetAccess, twin, kUnit, &kReadWrite, 1);
  EQUAL(cuMemSetAccess, "through the second address", Filled(twin, 9, 16), 9u);
  CALL("first address", CUDA_SUCCESS, cuMemcpyDtoH, &got, address, 4);
  EQUAL(cuMemMap, "a write through one is seen through the other", got, 9u);
  CALL("nothing mapped", CUDA_ERROR_INVALID_VALUE, cuMemSetAccess, address + kUnit, kUnit,
       &kReadWrite, 1);
  CALL("no description", CUDA_ERROR_INVALID_VALUE, cuMemSetAccess, address, kUnit, nullptr, 1);
  CALL("nothing mapped", CUDA_ERROR_INVALID_VALUE, cuMemGetAccess, &flags, &location,
       address + kUnit);
  CALL("second address", CUDA_SUCCESS, cuMemUnmap, twin, kUnit);
  CALL("first address", CUDA_SUCCESS, cuMemUnmap, address, kUnit);
  CALL("mapped nowhere", CUDA_SUCCESS, cuMemRelease, handle);
}

void KernelsUseIt() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  if (!LoadModule(&module) || !Kernel(&store, module, "store")) return;
  const CUmemAllocationProp properties = Properties();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  SETUP(cuMemAddressReserve, &address, 4 * kUnit, 0, 0, 0);
  SETUP(cuMemCreate, &handle, kUnit, &properties, 0);
  for (unsigned round = 1; round <= 8; ++round) {
    const CUdeviceptr at = address + (round % 4) * kUnit;
    CALL("moved on", CUDA_SUCCESS, cuMemMap, at, kUnit, 0, handle, 0);
    CALL("moved on", CUDA_SUCCESS, cuMemSetAccess, at, kUnit, &kReadWrite, 1);
    CUdeviceptr target = at + 4 * round;
    unsigned value = 100 + round, got = 0;
    void* parameters[] = {&target, &value};
    CALL("writes mapped memory", CUDA_SUCCESS, cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0, nullptr,
         parameters, nullptr);
    CALL("after it", CUDA_SUCCESS, cuMemcpyDtoH, &got, target, 4);
    EQUAL(cuLaunchKernel, "what it wrote", got, value);
    CALL("moved on", CUDA_SUCCESS, cuMemUnmap, at, kUnit);
  }
  CALL("moved about", CUDA_SUCCESS, cuMemRelease, handle);
}

// Does what PyTorch's expandable segments do.
void Segments() {
  if (!Begin()) return;
  const CUmemAllocationProp properties = Properties();
  size_t free_bytes = 0, total = 0;
  SETUP(cuMemGetInfo, &free_bytes, &total);
  CUdeviceptr large = 0, small = 0;
  CALL("more than there is", CUDA_SUCCESS, cuMemAddressReserve, &large,
       (total + total / 8) / kUnit * kUnit, 0, 0, 0);
  CALL("more than there is, again", CUDA_SUCCESS, cuMemAddressReserve, &small,
       (total + total / 8) / kUnit * kUnit, 0, 0, 0);
  CUmemGenericAllocationHandle handles[24] = {};
  for (int pass = 0; pass < 3; ++pass) {
    for (int i = 0; i < 24; ++i) {
      const bool is_large = i < 4;
      const size_t size = is_large ? 20 * kMiB : kUnit;
      const CUdeviceptr at = is_large ? large + i * size : small + i * size;
      SETUP(cuMemCreate, &handles[i], size, &properties, 0);
      SETUP(cuMemMap, at, size, 0, handles[i], 0);
    }
    CALL("four at once", CUDA_SUCCESS, cuMemSetAccess, large, 80 * kMiB, &kReadWrite, 1);
    CALL("twenty at once", CUDA_SUCCESS, cuMemSetAccess, small + 4 * kUnit, 20 * kUnit, &kReadWrite,
         1);
    EQUAL(cuMemSetAccess, "large segment", Filled(large, 11 + pass, 80 * kMiB / 4), 11u + pass);
    EQUAL(cuMemSetAccess, "small segment", Filled(small + 4 * kUnit, 21 + pass, 20 * kUnit / 4),
          21u + pass);
    CALL("before it is unmapped", CUDA_SUCCESS, cuCtxSynchronize);
    for (int i = 0; i < 24; ++i) {
      const size_t size = i < 4 ? 20 * kMiB : kUnit;
      SETUP(cuMemUnmap, i < 4 ? large + i * size : small + i * size, size);
      SETUP(cuMemRelease, handles[i]);
    }
  }
  size_t after = 0;
  SETUP(cuMemGetInfo, &after, &total);
  HOLDS(cuMemRelease, "nothing is left", after + 64 * kMiB >= free_bytes, "%zu, then %zu",
        free_bytes, after);
}

template <typename T>
T Attribute(CUpointer_attribute id, const char* name, CUdeviceptr address) {
  T value = {};
  CALL(name, CUDA_SUCCESS, cuPointerGetAttribute, &value, id, address);
  return value;
}

void Pointers() {
  if (!Begin()) return;
  const CUmemAllocationProp properties = Properties();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  SETUP(cuMemAddressReserve, &address, 4 * kUnit, 0, 0, 0);
  SETUP(cuMemCreate, &handle, kUnit, &properties, 0);
  SETUP(cuMemMap, address + kUnit, kUnit, 0, handle, 0);
  SETUP(cuMemSetAccess, address + kUnit, kUnit, &kReadWrite, 1);
  const CUdeviceptr inside = address + kUnit + 100;
  EQUAL(cuPointerGetAttribute, "type of mapped memory",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE", inside),
        CU_MEMORYTYPE_DEVICE);
  EQUAL(cuPointerGetAttribute, "device of mapped memory",
        Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL", inside), 0);
  EQUAL(cuPointerGetAttribute, "mapping's start",
        Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "MAPPING_BASE_ADDR", inside),
        address + kUnit);
  EQUAL(cuPointerGetAttribute, "mapping's size",
        Attribute<size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "MAPPING_SIZE", inside), kUnit);
  EQUAL(cuPointerGetAttribute, "access flags of mapped memory",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS", inside),
        CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  EQUAL(cuPointerGetAttribute, "mapped memory has no IPC handle",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                            "IS_LEGACY_CUDA_IPC_CAPABLE", inside) &
            0xff,
        0u);
  CUipcMemHandle ipc = {};
  CALL("mapped memory", CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle, &ipc, address + kUnit);
  CALL("mapped memory", CUDA_ERROR_INVALID_VALUE, cuMemFree, address + kUnit);
  int descriptor = -1;
  CALL("a handle made without", CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, &descriptor,
       handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

// This ends CUDA in the process, so it comes last.
void WriteThroughReadOnly() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  if (!LoadModule(&module) || !Kernel(&store, module, "store")) return;
  const CUmemAllocationProp properties = Properties();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  SETUP(cuMemAddressReserve, &address, kUnit, 0, 0, 0);
  SETUP(cuMemCreate, &handle, kUnit, &properties, 0);
  SETUP(cuMemMap, address, kUnit, 0, handle, 0);
  SETUP(cuMemSetAccess, address, kUnit, &kRead, 1);
  unsigned value = 1;
  void* parameters[] = {&address, &value};
  CALL("writes read-only memory", CUDA_SUCCESS, cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0, nullptr,
       parameters, nullptr);
  CALL("after a write to read-only memory", CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "virtual_memory",
             {{"granularity", Granularity},
              {"hosts", Hosts},
              {"addresses", Addresses},
              {"handles", Handles},
              {"mappings", Mappings},
              {"access", Access},
              {"kernels_use_it", KernelsUseIt},
              {"segments", Segments},
              {"pointers", Pointers},
              {"write_through_read_only", WriteThroughReadOnly}});
}
