// The use of a GPU as dispatch knows it, for a comparison with the driver's figures.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::dispatch {

// A session's worker.
struct WorkerUse {
  uint64_t session = 0;  // DispatchTerms::session; 0 for a process that does the work of a group.
  pid_t pid = 0;
  // True if the process does not belong to the tenant: it executes the commands of many tenants.
  bool trusted = false;
  int64_t since_us = 0;  // CLOCK_REALTIME; before this time the process had no session.
  // Compute time that the session was charged, by the server's clock. It only grows.
  int64_t busy_ns = 0;
};

// The use of compute of a slice, or of all slices of a group (DispatchTerms::group) together. The
// times are 0 when the first session joins, and only grow.
struct SliceUse {
  std::string slice;  // The slice's or the group's name.
  std::string tenant;
  uint32_t vgpu = 0;  // Changes when the slice leaves and comes back.
  // Time for which it was known to have work on the device, alone or by its part.
  int64_t noted_ns = 0;
  // Time for which slices that do not run together with it wanted the engine.
  int64_t others_wanted_ns = 0;
  uint32_t share = 0;  // Promised among itself and the active slices, in thousandths.
  std::vector<WorkerUse> workers;
};

// A device's power and temperature; 0 for a value that it does not report.
struct DevicePower {
  uint32_t power_mw = 0;
  uint32_t limit_mw = 0;
  int32_t temperature_c = 0;
};

struct GpuUse {
  // Time that the dispatcher's looks covered. It is less than the time that has passed if the
  // dispatcher's thread came late.
  int64_t looked_ns = 0;
  std::vector<SliceUse> slices;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_
