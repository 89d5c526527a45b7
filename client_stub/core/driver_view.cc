#include "client_stub/core/driver_view.h"

#include <cstdint>
#include <vector>

#include "client_stub/core/runtime.h"

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

  CUresult StreamId(CUstream stream, bool per_thread, uint64_t* id) override {
    unsigned long long number = 0;
    const CUresult result =
        per_thread ? cuStreamGetId_ptsz(stream, &number) : cuStreamGetId(stream, &number);
    *id = number;
    return result;
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
