// What the CPU device says about itself. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_INFO_H_
#define WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_INFO_H_

#include "server/device/device.h"

namespace warpline::cpu {

// The number of cores that this process may use.
int HostCores();

// Describes the device with number `ordinal` of `devices`.
device::DeviceInfo DescribeHost(int ordinal, int devices);

// The memory of this host, or of its container.
uint64_t HostMemoryBytes();

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_INFO_H_
