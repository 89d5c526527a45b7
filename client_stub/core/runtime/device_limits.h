// The limits that a device sets for launches, as this process knows them.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_LIMITS_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_LIMITS_H_

#include <cstdint>

#include "client_stub/session/session_terms.h"

namespace warpline::stub {

struct DeviceLimits {
  uint32_t max_grid[3] = {};
  uint32_t max_block[3] = {};
  uint32_t max_threads_per_block = 0;
  uint32_t max_registers_per_block = 0;
  uint32_t warp_size = 32;
};

DeviceLimits LimitsOf(const RemoteDevice& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_DEVICE_LIMITS_H_
