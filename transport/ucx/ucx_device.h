// The network interface that leads to a peer, and its RDMA devices. Private to transport/ucx.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_
#define WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::ucx_internal {

struct UcxDevice {
  std::string name;     // As UCX and ip(8) name it: "eth0".
  std::string address;  // This host's own on it: "10.0.0.7".
};

// The interface by which this host reaches `peer`, an IP address as a number. INVALID_ARGUMENT for
// what is none, UNAVAILABLE where no way leads there. Sends nothing.
absl::StatusOr<UcxDevice> DeviceTowards(const std::string& peer);

// The RDMA devices whose port a network interface is, as UCX names them: "mlx5_0:1". Others lead to
// networks that nobody named. `sys` is where the kernel's sysfs is.
std::vector<std::string> RdmaDevicesOf(const std::string& interface,
                                       const std::string& sys = "/sys");

}  // namespace warpline::ucx_internal

#endif  // WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_
