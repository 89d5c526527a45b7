// The options of a server that concern each of its sessions.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_OPTIONS_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "memory/arena_book.h"
#include "proto/tier.h"
#include "server/gpu_server/children/workers/guarded_standby.h"
#include "server/gpu_server/children/workers/guarded_worker.h"
#include "server/gpu_server/modules/program_book.h"
#include "server/gpu_server/session/connection/session_channel.h"
#include "server/gpu_server/session/connection/session_link.h"
#include "server/hostlink/handover/host_bytes.h"
#include "server/hostlink/process/child_process.h"

namespace warpline::server {

// What sessions of the guarded tier may have.
struct GuardedTierOptions {
  // How their workers are started.
  ChildOptions worker;
  GuardedWorkerOptions process;
  GuardedStandbyOptions standby;
  uint64_t max_arena_bytes = kMinArenaBytes;
  // Of a session whose lease does not say how much it may have.
  uint64_t memory_bytes = 1ull << 30;
  // For how long somebody gets no session whose work did not end, at first (HangBook).
  absl::Duration hang_pause = absl::ZeroDuration();
  // The longest that a launch may take; a lease may say less.
  absl::Duration launch_limit = absl::InfiniteDuration();
};

struct SessionOptions {
  // The tiers that sessions may have; at least one.
  std::vector<Tier> tiers = {Tier::kIsolated, Tier::kGuarded};
  GuardedTierOptions guarded;
  // How a worker is started.
  ChildOptions worker;
  // Workers of each device that wait for a session with everything done that does not depend on it.
  int warm_workers = 0;
  uint64_t max_arena_bytes = kMaxArenaBytes;
  // See Welcome and OpenWorker in proto/.
  uint64_t window_bytes = 16u << 20;
  uint64_t window_commands = 65536;
  // Of each ring between server and worker.
  uint64_t ring_bytes = 4u << 20;
  // A client that has not said hello by then is sent away.
  absl::Duration hello_timeout = absl::Seconds(10);
  // How long a session waits for a client that lost its connection. 0: not at all.
  absl::Duration resume_timeout = absl::ZeroDuration();
  // Where clients on this host may go on: the path of a unix socket, or none.
  std::string unix_socket;
  // The same for shared memory: the name of an abstract socket, or none.
  std::string shm_name;
  // See Welcome; empty where clients and workers share no memory.
  std::string host_memory_socket;
  // For how long the policy may have a session wait that is to be opened.
  absl::Duration most_queued = absl::Seconds(10);
  // A worker that has not opened its device, or taken over a session, by then is given up.
  absl::Duration open_timeout = absl::Seconds(60);
  // For the client to take the fault that ended its session.
  absl::Duration fault_timeout = absl::Seconds(10);
  // Memory requests and returns that a client may have under way.
  int max_pending_requests = 64;
  SessionChannelOptions channel;
  // A session that goes on at another server shows the token of its lease there.
  bool keeps_tokens = false;
  std::string server_name;  // For clients' logs.
  // Null where no programs are vetted.
  std::shared_ptr<ProgramBook> programs;
};

// The host memory that each session may take without asking for it: rings, frames for a client that
// does not acknowledge, commands that wait, and a little of images and journal.
inline uint64_t HostBytesOfSession(const SessionOptions& options) {
  const uint64_t connection = options.shm_name.empty() ? 0 : kConnectionBytes;
  return 2 * options.ring_bytes + connection + SessionLink::kMaxKeptBytes + kFreeQueuedBytes +
         kFreeImageBytes;
}

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_OPTIONS_H_
