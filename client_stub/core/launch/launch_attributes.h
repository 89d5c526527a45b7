// The attributes of cuLaunchKernelEx, read and checked as far as this process can.
#ifndef WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_ATTRIBUTES_H_
#define WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

struct LaunchAttributes {
  bool cooperative = false;
  uint32_t cluster[3] = {};  // All 0 where no cluster was asked for.
  std::string wire;          // The attributes that the device is told.
  uint32_t wire_count = 0;
  std::vector<Event*> events;  // The events to record behind the launch.

  bool plain() const { return !cooperative && wire_count == 0; }
};

// CUDA_ERROR_INVALID_VALUE for an attribute that no launch takes or a value that it cannot have;
// CUDA_ERROR_NOT_SUPPORTED for an attribute that would change the launch's meaning on a device that
// lacks it. Attributes that only advise are ignored where the device would not heed them.
CUresult ReadLaunchAttributes(const CUlaunchAttribute* attributes, unsigned int count,
                              LaunchAttributes* read);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_ATTRIBUTES_H_
