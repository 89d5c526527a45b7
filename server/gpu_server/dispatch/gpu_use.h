// What dispatch knows of the use of a GPU, for whoever holds it against what the driver says.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::dispatch {

// A session's worker.
struct WorkerUse {
  uint64_t session = 0;  // SeatTerms::session; 0 for a process that does the work of a group.
  pid_t pid = 0;
  // The process is not its tenant's: it executes the commands of many.
  bool trusted = false;
  int64_t since_us = 0;  // By CLOCK_REALTIME: before, the process was nobody's.
  // What the session was charged of compute, by the server's clock; it only grows.
  int64_t busy_ns = 0;
};

// A slice's use of compute, or that of the slices of one group (SeatTerms::group) together. The
// times only grow, from 0 when its first session joins.
struct SliceUse {
  std::string slice;  // SeatTerms::slice; of a group a name of its own.
  std::string tenant;
  uint32_t vgpu = 0;  // Another number after the slice has left and come back.
  // How long it was known to have work on the device, alone or by its part.
  int64_t noted_ns = 0;
  // How long others wanted the engine that do not run together with it.
  int64_t others_wanted_ns = 0;
  uint32_t share = 0;  // Promised among those that are active and it, in thousandths.
  std::vector<WorkerUse> workers;
};

// What a device draws; 0 for what it does not say.
struct DevicePower {
  uint32_t power_mw = 0;
  uint32_t limit_mw = 0;
  int32_t temperature_c = 0;
};

struct GpuUse {
  // How long the dispatcher has looked after it; less than has passed where its thread came late.
  int64_t looked_ns = 0;
  std::vector<SliceUse> slices;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_USE_H_
