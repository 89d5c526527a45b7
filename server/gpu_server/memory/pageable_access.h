// GPUs that reach memory which nobody made available to them.
//
// Where the host's kernel and driver share page tables (HMM) or hardware does (ATS, as on Grace),
// a kernel reads and writes all memory of its process: the worker's heap and stacks, too. No check
// of commands can prevent that; only what is around the worker keeps such a tenant from the others.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGEABLE_ACCESS_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGEABLE_ACCESS_H_

#include "absl/status/status.h"
#include "proto/session.pb.h"

namespace warpline::server {

// What the server does about such a device when it starts.
enum class PageableAccess { kWarn, kRefuse };

bool ReachesPageableMemory(const warpline_internal::DeviceInfo& device);

// Does what `policy` says: a line in the log, or FAILED_PRECONDITION. OK for other devices.
absl::Status CheckPageableAccess(const warpline_internal::DeviceInfo& device, int ordinal,
                                 PageableAccess policy);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGEABLE_ACCESS_H_
