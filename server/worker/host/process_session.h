// A session in a worker's process, with what it has there.
#ifndef WARPLINE_SERVER_WORKER_HOST_PROCESS_SESSION_H_
#define WARPLINE_SERVER_WORKER_HOST_PROCESS_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "server/device/device.h"
#include "server/worker/host/arena_memory.h"
#include "server/worker/host/overdue_kernels.h"
#include "server/worker/host/ring_session.h"

namespace warpline::worker {

// In a process of one session it stays for as long as the process lives. Thread-compatible.
struct ProcessSession {
  // On a device that others share, the session's own; null otherwise.
  std::unique_ptr<device::Context> context;
  std::shared_ptr<OverdueKernels> overdue;  // Likewise.
  // Likewise: its part of the device's multiprocessors, in thousandths.
  std::shared_ptr<std::atomic<uint32_t>> share;
  std::unique_ptr<ArenaMemory> memory;
  std::unique_ptr<RingSession> ring;  // Null for a reader.
  bool open = false;                  // All of it is there.

  // Ends a session that has a context of its own: its threads, its work on the device, and all that
  // it has there. It waits for that work, which is told to stop, and returns false when it has not
  // ended after `patience`: then everything stays as it is, for good.
  bool End(absl::Duration patience);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_PROCESS_SESSION_H_
