// `warpline devices`: what a program's lease or session has of the server's devices.
#ifndef WARPLINE_TOOLS_CLI_DEVICES_H_
#define WARPLINE_TOOLS_CLI_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/device_status.pb.h"

namespace warpline::cli {

// Asks with the token of the lease that this process runs under, otherwise for process `pid` of
// this host. The reply has no device where CUDA_VISIBLE_DEVICES hides every one.
// UNIMPLEMENTED, saying what to do, when a scheduler answers.
absl::StatusOr<warpline_internal::DeviceStatusReply> AskForDevices(const std::string& endpoint,
                                                                   uint32_t pid);

// Writes lines of a name, a space and the value: first those of the driver, then for each device
// "device N" and what belongs to it, and "end" last. libnvidia-ml.so.1 reads them: it asks by
// running this program (docs/decisions/0014-nvml.md).
std::string DevicesReport(warpline_internal::DeviceStatusReply reply);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_DEVICES_H_
