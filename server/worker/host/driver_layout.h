// Decides where NVIDIA's driver puts what it places itself.
//
// The driver takes the addresses of module variables, and of whatever else it allocates on a
// device, from ranges of the process that it reserves with mmap(). A worker that takes over from
// another must find the variables where they were, so these reservations must not depend on what
// else the process has mapped by then: thread stacks, heaps, buffers. Therefore the driver finds
// the worker's own `mmap`. It gives large reservations that ask for no address (private, anonymous,
// no access) consecutive places in the range below, and passes on all others.
#ifndef WARPLINE_SERVER_WORKER_HOST_DRIVER_LAYOUT_H_
#define WARPLINE_SERVER_WORKER_HOST_DRIVER_LAYOUT_H_

#include <cstdint>

namespace warpline::worker {

// The range is clear of the arenas that clients ask for
// (client_stub/session/handshake/arena_reservation.cc), the host arena (proto/frames.h),
// executables and libraries.
inline constexpr uint64_t kDriverRangeStart = 0x520000000000;
inline constexpr uint64_t kDriverRangeEnd = 0x550000000000;

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_DRIVER_LAYOUT_H_
