// The attributes of a launch as they come from a client.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_LAUNCH_ATTRIBUTES_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_LAUNCH_ATTRIBUTES_H_

#include <cstdint>
#include <string_view>

#include "server/device/device.h"

namespace warpline::worker {

// Takes `count` attributes off the front of `tail`. Returns false when there are fewer, or when one
// may not reach the device: attributes that name objects of the driver must be expressed otherwise
// by the client.
bool TakeAttributes(std::string_view* tail, uint32_t count, device::LaunchConfig* config);

// Whether streams have this attribute. Others may hold addresses of the driver's objects.
bool IsStreamAttribute(uint32_t id);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_LAUNCH_ATTRIBUTES_H_
