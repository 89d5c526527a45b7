// Answers what a client's NVML asks: the devices of a lease or a session, and nothing of others.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_DEVICE_STATUS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_DEVICE_STATUS_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/device_status.pb.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/nvml/sampler.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {

// The gRPC method that AnswerDeviceStatus() is behind.
inline constexpr char kDeviceStatusMethod[] = "/warpline_internal.Gpu/DeviceStatus";

// A serialized DeviceStatusReply to a serialized DeviceStatusRequest of `peer`. With a token it
// tells of the lease's sessions, otherwise of those that the named process opened without a lease
// from where the peer is: the same certificate, the same host, or like it this host itself; of the
// lease's devices, else those that they use, else those that their next session would get. Memory
// is that of their quota; temperatures, clocks and utilization are the whole device's. `sampler`
// may be null. Errors as LeaseBook::Join(), NOT_FOUND when there is no such device,
// INVALID_ARGUMENT. Thread-safe.
absl::StatusOr<std::string> AnswerDeviceStatus(const HostSnapshot& snapshot,
                                               const LeaseBook& leases, nvml::Sampler* sampler,
                                               const std::string& peer, const std::string& bytes);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_DEVICE_STATUS_H_
