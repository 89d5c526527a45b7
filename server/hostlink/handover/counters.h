// Counters of sessions, for metrics, `warpline stat` and `warpline ps`.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_COUNTERS_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "server/hostlink/handover/session_usage.h"
#include "server/hostlink/handover/tenant_totals.h"

namespace warpline {

// A sum that is read only for reports. Thread-safe.
class Counter {
 public:
  void Add(uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The traffic between one client and its worker.
struct TrafficCounters {
  Counter frames_received;  // Frames of every kind from the client.
  Counter frames_sent;
  Counter commands;
  Counter command_bytes;
  Counter reply_bytes;
  Counter bulk_bytes;  // Through bulk connections, in both directions.
  Counter memory_requests;
  Counter memory_refused;  // Requests for which the session's lease, quota or device had no memory.
  Counter frames_again;    // Frames that were sent again after a resumption.

  void AddAll(const TrafficCounters& other) {
    frames_received.Add(other.frames_received.value());
    frames_sent.Add(other.frames_sent.value());
    commands.Add(other.commands.value());
    command_bytes.Add(other.command_bytes.value());
    reply_bytes.Add(other.reply_bytes.value());
    bulk_bytes.Add(other.bulk_bytes.value());
    memory_requests.Add(other.memory_requests.value());
    memory_refused.Add(other.memory_refused.value());
    frames_again.Add(other.frames_again.value());
  }
};

// What a session had that has ended.
struct EndedSession {
  TenantTotals::Key key = {};
  bool placed = false;  // It had a device: it is one of the tenant's.
  bool killed = false;  // For more urgent work.
  SessionUsage usage = {};
  std::array<uint64_t, 3> engine_ns = {};  // Compute, copies in, copies out.
};

// Events of all sessions since the server started.
struct ServerCounters {
  Counter sessions_opened;
  Counter sessions_refused;
  Counter worker_deaths;
  Counter memory_moves_out;  // Sessions whose memory was moved to the host for others.
  Counter suspensions;       // Sessions whose workers were ended until they are wanted.
  Counter memory_moves_in;   // Sessions whose memory came back.
  Counter worker_replacements;
  Counter faults;
  Counter killed;  // Best-effort sessions that were ended for more urgent work.
  Counter protocol_errors;
  Counter resumes;           // Sessions that had lost their connection.
  Counter transfers;         // Sessions whose client went on over another connection.
  Counter resumes_refused;   // For wrong secrets or unknown sessions.
  Counter clients_vanished;  // Sessions that ended because their client did not come back.
  TrafficCounters ended;     // The sum over sessions that have ended.
  // The sums over sessions that have ended, of the rows that are totals.
  std::array<Counter, kUsageCount> ended_usage;
  // How long they have had the engines of devices: compute, copies in, copies out.
  std::array<Counter, 3> ended_engine_ns;
  TenantTotals ended_tenants;

  void AddEnded(const EndedSession& session, const TrafficCounters& traffic) {
    ended.AddAll(traffic);
    for (const UsageInfo& row : kUsageTable) {
      if (row.kind == UsageKind::kTotal) {
        ended_usage[RowOf(row.usage)].Add(session.usage[row.usage]);
      }
    }
    for (size_t i = 0; i < ended_engine_ns.size(); ++i) {
      ended_engine_ns[i].Add(session.engine_ns[i]);
    }
    if (!session.placed) return;
    ended_tenants.Add(session.key, {.engine_ns = session.engine_ns,
                                    .sessions = 1,
                                    .commands = traffic.commands.value(),
                                    .bulk_bytes = traffic.bulk_bytes.value(),
                                    .memory_refused = traffic.memory_refused.value(),
                                    .killed = session.killed ? 1u : 0u});
  }
  SessionUsage EndedUsage() const {
    SessionUsage usage;
    for (size_t i = 0; i < kUsageCount; ++i) usage.rows[i] = ended_usage[i].value();
    return usage;
  }
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_COUNTERS_H_
