// Which network interface leads to somebody. Private to transport/ucx.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_
#define WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"

namespace warpline::ucx_internal {

struct UcxDevice {
  std::string name;     // As UCX and ip(8) name it: "eth0".
  std::string address;  // This host's own on it: "10.0.0.7".
};

// The interface by which this host reaches `peer`, an IP address as a number. INVALID_ARGUMENT for
// what is none, UNAVAILABLE where no way leads there. Sends nothing.
absl::StatusOr<UcxDevice> DeviceTowards(const std::string& peer);

}  // namespace warpline::ucx_internal

#endif  // WARPLINE_TRANSPORT_UCX_UCX_DEVICE_H_
