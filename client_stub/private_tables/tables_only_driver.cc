// A libcuda.so.1 for static_runtime_test: the calls with which a program with a static CUDA runtime
// copies memory and launches a kernel, on devices that exist in name only. Device memory is host
// memory and kernels do nothing. $TEST_DEVICES says how many devices there are.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "client_stub/private_tables/export_tables.h"
#include "client_stub/shim/entry_points.h"
#include "cuda.h"

namespace {

constexpr int kVersion = 13000;
constexpr int kMaxDevices = 16;

char g_contexts[kMaxDevices];  // Their addresses are the primary contexts.
thread_local CUcontext t_current = nullptr;

int Devices() {
  static const int count = [] {
    const char* text = std::getenv("TEST_DEVICES");
    return text == nullptr ? 1 : std::atoi(text);
  }();
  return count;
}

CUcontext ContextOf(CUdevice device) { return reinterpret_cast<CUcontext>(&g_contexts[device]); }

class View : public warpline::DriverView {
 public:
  int DriverVersion() override { return kVersion; }
  int DeviceCount() override { return Devices(); }
  CUresult DeviceAttribute(int* value, CUdevice_attribute attribute, CUdevice device) override {
    return cuDeviceGetAttribute(value, attribute, device);
  }
  CUresult DeviceUuid(CUuuid* uuid, CUdevice device) override {
    return cuDeviceGetUuid(uuid, device);
  }
  CUresult PrimaryContext(CUdevice device, CUcontext* context) override {
    *context = ContextOf(device);
    return CUDA_SUCCESS;
  }
  CUresult CurrentContext(CUcontext* context) override {
    *context = t_current;
    return CUDA_SUCCESS;
  }
  CUresult ContextId(CUcontext, uint64_t* id) override {
    *id = 1;
    return CUDA_SUCCESS;
  }
  CUresult StreamId(CUcontext, CUstream, bool, uint64_t* id) override {
    *id = 1;
    return CUDA_SUCCESS;
  }
  CUresult Functions(CUmodule, std::vector<CUfunction>*) override {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
};

// A handle that nothing dereferences.
template <typename Handle>
CUresult Give(Handle* handle) {
  static char object;
  *handle = reinterpret_cast<Handle>(&object);
  return CUDA_SUCCESS;
}

void* Host(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

}  // namespace

extern "C" {

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  static View* const view = new View;
  return warpline::GetExportTable(view, id, table);
}

CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  static void* const self = [] {
    Dl_info info;
    dladdr(g_contexts, &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  const char* symbol = warpline::ResolveSymbol(name, version, flags, status);
  *function = symbol == nullptr ? nullptr : dlsym(self, symbol);
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = kVersion;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = Devices();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, size, "In name only %d", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  for (size_t i = 0; i < sizeof(uuid->bytes); ++i) {
    uuid->bytes[i] = static_cast<char>(17 * (static_cast<size_t>(device) + 1) + 31 * i);
  }
  return CUDA_SUCCESS;
}
// The runtime asks for the first ABI of these three.
#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 7;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 5;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      *value = 3;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = 65 + device;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      *value = 2;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  warpline::ForgetContext(ContextOf(device));
  return CUDA_SUCCESS;
}
#undef cuDevicePrimaryCtxRelease
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
#undef cuDevicePrimaryCtxReset
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = t_current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  t_current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr) context = t_current;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = static_cast<CUdevice>(reinterpret_cast<char*>(context) - g_contexts);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize_v2(CUcontext) { return CUDA_SUCCESS; }

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return Give(library);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char*) { return Give(kernel); }
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void**, void**) {
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  *pointer = reinterpret_cast<CUdeviceptr>(std::calloc(1, bytes));
  return *pointer == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr pointer) {
  std::free(Host(pointer));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  std::memcpy(Host(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, Host(from), bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) { return Give(stream); }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }

}  // extern "C"
