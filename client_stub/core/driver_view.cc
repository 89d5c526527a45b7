#include "client_stub/core/driver_view.h"

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
    *context = runtime().primary->handle;
    return CUDA_SUCCESS;
  }

  CUresult CurrentContext(CUcontext* context) override { return cuCtxGetCurrent(context); }
};

}  // namespace

DriverView* TheDriverView() {
  static CoreDriverView* const view = new CoreDriverView;
  return view;
}

}  // namespace warpline::stub
