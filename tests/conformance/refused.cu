// The families of calls that are not supported yet: natively they work; remotely each gives the
// documented error.
#include "setting.h"

namespace conformance {
namespace {

void OtherDevices() {
  if (!Begin()) return;
  int can = 99, count = 0;
  CALL("of the device itself", CUDA_SUCCESS, cuDeviceCanAccessPeer, &can, 0, 0);
  EQUAL(cuDeviceCanAccessPeer, "a device is no peer of itself", can, 0);
  SETUP(cuDeviceGetCount, &count);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer, &can, 0, count);
  int value = 0;
  CALL("a device and itself", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute, &value,
       CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, count);
  CALL("own context", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, g_context, 0);
}

void Others() {
  if (!Begin()) return;
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = -1;
  description.size = 4096;
  REFUSED("bad descriptor", CUDA_ERROR_UNKNOWN, cuImportExternalMemory, &memory, &description);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "refused", {{"other_devices", OtherDevices}, {"others", Others}});
}
