// What is counted about sessions: for metrics, `warpline stat` and `warpline ps`.
#ifndef WARPLINE_SERVER_HANDOVER_COUNTERS_H_
#define WARPLINE_SERVER_HANDOVER_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "server/handover/session_usage.h"

namespace warpline {

// A sum that is only read for reports. Thread-safe.
class Counter {
 public:
  void Add(uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// What passed between one client and its worker.
struct TrafficCounters {
  Counter frames_received;  // From the client, of every kind.
  Counter frames_sent;
  Counter commands;
  Counter command_bytes;
  Counter reply_bytes;
  Counter memory_requests;
  Counter memory_refused;  // Requests that the session's lease, quota or device had no memory for.
  Counter frames_again;    // Sent again after a resumption.

  void AddAll(const TrafficCounters& other) {
    frames_received.Add(other.frames_received.value());
    frames_sent.Add(other.frames_sent.value());
    commands.Add(other.commands.value());
    command_bytes.Add(other.command_bytes.value());
    reply_bytes.Add(other.reply_bytes.value());
    memory_requests.Add(other.memory_requests.value());
    memory_refused.Add(other.memory_refused.value());
    frames_again.Add(other.frames_again.value());
  }
};

// What happened to sessions since the server started.
struct ServerCounters {
  Counter sessions_opened;
  Counter sessions_refused;
  Counter worker_deaths;
  Counter worker_replacements;
  Counter faults;
  Counter protocol_errors;
  Counter resumes;           // Of sessions that had lost their connection.
  Counter transfers;         // Of sessions whose client went on on another connection.
  Counter resumes_refused;   // Wrong secrets, unknown sessions.
  Counter clients_vanished;  // Sessions ended because the client did not come back.
  TrafficCounters ended;     // Of sessions that have ended.
  std::array<Counter, kLimitCount> limits_met;  // By sessions that have ended.
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HANDOVER_COUNTERS_H_
