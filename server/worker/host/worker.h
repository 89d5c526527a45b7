// The parts of a worker's process, and how the server has them opened.
#ifndef WARPLINE_SERVER_WORKER_HOST_WORKER_H_
#define WARPLINE_SERVER_WORKER_HOST_WORKER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/device/device.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/host/output_capture.h"
#include "server/worker/host/ring_writer.h"
#include "server/worker/host/socket_charger.h"
#include "server/worker/lanes/image_cache.h"
#include "server/worker/memory/virtual_memory.h"
#include "server/worker/session/session.h"
#include "transport/shm_ring.h"

namespace warpline::worker {

// Where the server is.
inline constexpr int kControlFd = 3;

// The session's parts, in the order in which they need each other. Never destroyed: the process
// ends with _exit, and its memory and device contexts with it.
struct Worker {
  std::unique_ptr<device::Backend> backend;
  std::vector<int> ordinals;                               // Of the contexts.
  std::vector<std::unique_ptr<device::Context>> contexts;  // By device of the session.
  std::unique_ptr<RingReader> commands;
  std::unique_ptr<RingFrameWriter> replies;
  std::unique_ptr<OutputCapture> output;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<ServerImageCache> images;
  std::unique_ptr<VirtualMemory> memory;
  std::unique_ptr<Session> session;
  SocketCharger charger{kControlFd};
  bool opened = false;
  // What Prepare() took, for the log.
  absl::Duration driver_time;
  absl::Duration context_time;
  uint64_t arena_base = 0;
  uint64_t arena_bytes = 0;
};

// What takes long and is the same for every session of the devices: opens their contexts, and then
// enters the sandbox. Once; later calls must name the same devices.
absl::Status Prepare(const warpline_internal::PrepareWorker& prepare, Worker* worker);

// The rest. `fds` as OpenWorker says.
absl::Status Open(const warpline_internal::OpenWorker& open, std::vector<UniqueFd> fds,
                  Worker* worker);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_WORKER_H_
