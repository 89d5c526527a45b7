// A session as `warpline ps` and `warpline stat` show it.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_SNAPSHOT_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lease/entitlement.h"
#include "server/gpu_server/dispatch/dispatch_registration.h"
#include "server/hostlink/handover/counters.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline::server {

// What its client said of itself; anything.
struct ClientSnapshot {
  std::string program;
  uint32_t pid = 0;
  std::string boot_id;
  uint64_t pid_namespace = 0;
  std::string peer;
  std::string transport;  // What its commands come by; empty while it is away.
};

// What it holds of one of its devices.
struct SessionDeviceSnapshot {
  int ordinal = 0;
  uint64_t quota_bytes = 0;
  uint64_t quota_used_bytes = 0;  // By all sessions that share the quota.
  uint64_t memory_bytes = 0;
};

// Of all its devices together.
struct MemorySnapshot {
  uint64_t quota_bytes = 0;
  uint64_t quota_used_bytes = 0;
  uint64_t bytes = 0;
  uint64_t kept_bytes = 0;    // Returned, and kept until the worker is gone.
  uint64_t away_bytes = 0;    // Moved to the host.
  uint64_t window_bytes = 0;  // Of its host window; 0 for none.
  std::string refusal;        // Why memory was refused, the latest time.
};

struct TrafficSnapshot {
  explicit TrafficSnapshot(const TrafficCounters& counters = {})
      : frames_received(counters.frames_received.value()),
        frames_sent(counters.frames_sent.value()),
        commands(counters.commands.value()),
        command_bytes(counters.command_bytes.value()),
        reply_bytes(counters.reply_bytes.value()),
        bulk_bytes(counters.bulk_bytes.value()),
        memory_requests(counters.memory_requests.value()),
        memory_refused(counters.memory_refused.value()),
        frames_again(counters.frames_again.value()) {}

  uint64_t frames_received;
  uint64_t frames_sent;
  uint64_t commands;
  uint64_t command_bytes;
  uint64_t reply_bytes;
  uint64_t bulk_bytes;
  uint64_t memory_requests;
  uint64_t memory_refused;
  uint64_t frames_again;
  uint64_t unacknowledged_bytes = 0;
};

// Its connections and its workers: how often it went on with another.
struct ContinuitySnapshot {
  uint64_t resumes = 0;
  uint64_t transfers = 0;
  uint64_t restarts = 0;  // Workers that took over from another.
};

struct SessionSnapshot {
  uint64_t id = 0;
  std::string state;
  absl::Time since;
  std::string reason;   // Why it ends, once it does.
  bool killed = false;  // For more urgent work.
  Entitlement entitlement;
  std::string tier;  // proto/tier.h
  ClientSnapshot client;
  int worker_pid = 0;
  // In the order of the session; none before they were chosen.
  std::vector<SessionDeviceSnapshot> devices;
  MemorySnapshot memory;
  TrafficSnapshot traffic;
  ContinuitySnapshot continuity;
  SessionUsage usage;
  dispatch::DispatchUsage engines;  // The use of its devices, where they are dispatched.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_SNAPSHOT_H_
