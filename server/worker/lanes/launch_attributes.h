// The attributes of a launch as they come from a client.
#ifndef WARPLINE_SERVER_WORKER_LANES_LAUNCH_ATTRIBUTES_H_
#define WARPLINE_SERVER_WORKER_LANES_LAUNCH_ATTRIBUTES_H_

#include <cstdint>
#include <string_view>

#include "server/device/device.h"

namespace warpline::worker {

// Takes `count` attributes off the front of `tail`. False when there are fewer, or one that may not
// reach the device: those that name objects of the driver are the client's to express otherwise.
bool TakeAttributes(std::string_view* tail, uint32_t count, device::LaunchConfig* config);

// Whether it is an attribute that streams have. Others may hold addresses of the driver's objects.
bool IsStreamAttribute(uint32_t id);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LAUNCH_ATTRIBUTES_H_
