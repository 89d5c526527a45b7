// A TUN device in a network namespace: IP packets that the namespace sends are read from a
// descriptor, and packets that are written to it arrive there.
#ifndef WARPLINE_BENCH_NETWORK_TUN_DEVICE_H_
#define WARPLINE_BENCH_NETWORK_TUN_DEVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// Makes the device `name` in the network namespace of process `pid`. Each read and write of the
// descriptor, which does not block, is an OffloadHeader and a packet. The device ends with it.
// FAILED_PRECONDITION without the rights, or where this system has no TUN devices.
absl::StatusOr<UniqueFd> OpenTun(int pid, const std::string& name);

// Has the namespace hand over TCP as packets of up to 64 KiB, with checksums that are still to be
// made, or only whole packets as they would be on a wire.
absl::Status SetOffloads(int tun, bool on);

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_TUN_DEVICE_H_
