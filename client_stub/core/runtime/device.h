// A device of the session as this process keeps it.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_H_

#include <atomic>
#include <cstdint>

#include "client_stub/arena/allocator.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device_limits.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/session/session_terms.h"

namespace warpline::stub {

// Thread-safe. Plain members are set before the driver is initialized and constant afterwards. The
// object never moves, because contexts, streams, pools and kernels point to their device.
struct Device {
  uint32_t number = 0;  // The number in the session, which is the application's CUdevice.
  const RemoteDevice* remote = nullptr;
  Allocator* allocator = nullptr;
  DeviceLimits limits;
  Stream legacy;
  Context* primary = nullptr;
  MemoryPool* default_pool = nullptr;
  std::atomic<MemoryPool*> current_pool{nullptr};

  int attribute(int which) const { return remote->attributes[which]; }
  // Whether this device can access the memory of `other`.
  bool can_access(const Device& other) const { return (remote->peers >> other.number & 1) != 0; }
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_H_
