#include "client_stub/core/entry/driver_view.h"

#include <cstdint>
#include <vector>

#include "client_stub/core/base/environment.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

class CoreDriverView final : public DriverView {
 public:
  int DriverVersion() override { return environment().driver_version; }

  int DeviceCount() override {
    int count = 0;
    return cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
  }

  CUresult DeviceAttribute(int* value, CUdevice_attribute attribute, CUdevice device) override {
    return cuDeviceGetAttribute(value, attribute, device);
  }

  CUresult DeviceUuid(CUuuid* uuid, CUdevice device) override {
    return cuDeviceGetUuid_v2(uuid, device);
  }

  CUresult PrimaryContext(CUdevice device, CUcontext* context) override {
    WARPLINE_TRY(EnterInitialized());
    WARPLINE_TRY(CheckDevice(device));
    *context = runtime().devices[device].primary->handle;
    return CUDA_SUCCESS;
  }

  CUresult CurrentContext(CUcontext* context) override { return cuCtxGetCurrent(context); }

  CUresult ContextId(CUcontext context, uint64_t* id) override {
    unsigned long long number = 0;
    const CUresult result = cuCtxGetId(context, &number);
    *id = number;
    return result;
  }

  CUresult StreamId(CUcontext context, CUstream stream, bool per_thread, uint64_t* id) override {
    unsigned long long number = 0;
    const auto get = per_thread ? &cuStreamGetId_ptsz : &cuStreamGetId;
    if (!IsDefaultStream(stream)) {
      WARPLINE_TRY(get(stream, &number));
    } else if (context == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    } else {
      WARPLINE_TRY(cuCtxPushCurrent_v2(context));
      const CUresult result = get(stream, &number);
      WARPLINE_TRY(cuCtxPopCurrent_v2(nullptr));
      if (result != CUDA_SUCCESS) return result;
    }
    *id = number;
    return CUDA_SUCCESS;
  }

  CUresult Functions(CUmodule module, std::vector<CUfunction>* functions) override {
    unsigned int count = 0;
    WARPLINE_TRY(cuModuleGetFunctionCount(&count, module));
    functions->resize(count);
    return count == 0 ? CUDA_SUCCESS : cuModuleEnumerateFunctions(functions->data(), count, module);
  }
};

}  // namespace

DriverView* TheDriverView() {
  static CoreDriverView* const view = new CoreDriverView;
  return view;
}

}  // namespace warpline::stub
