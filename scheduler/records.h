// The scheduler's records: tenants, servers with their devices, and leases.
#ifndef WARPLINE_SCHEDULER_RECORDS_H_
#define WARPLINE_SCHEDULER_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lease/end_reason.h"
#include "lease/rights.h"
#include "lease/token.h"
#include "proto/tier.h"

namespace warpline::scheduler {

// The tenant of a scheduler to which no tenant has been added yet.
inline constexpr char kDefaultTenant[] = "default";

// How much a slice is, a vGPU's shape that an operator has given a name. 0 leaves a part to what
// tenants and servers have without a slice.
struct SliceShape {
  uint64_t memory_bytes = 0;      // Of each device, for all sessions of a lease together.
  uint64_t resident_bytes = 0;    // So much of that is on the device at a time.
  uint64_t staging_bytes = 0;     // Likewise, of host memory shared with the server.
  uint32_t max_sessions = 0;      // Of a lease, at a time.
  uint64_t max_handles = 0;       // Of one session.
  uint64_t max_module_bytes = 0;  // Of one session.
  uint32_t max_commands = 0;      // Of one session, sent and not complete.
  uint32_t sm_percent = 0;        // Of a device's multiprocessors, 1 to 100.
  uint64_t launch_ms = 0;         // The longest that a launch may take.
  // Where others want the device, too; 0 for the tenant's own.
  uint32_t weight = 0;
  uint32_t copy_weight = 0;
  uint32_t priority = 0;
  // The reservation: so much time of each device in each period; both or neither.
  uint32_t period_ms = 0;
  uint32_t budget_ms = 0;
  // Whether its sessions may be ended at once when more urgent work waits.
  bool best_effort = false;
  friend bool operator==(const SliceShape&, const SliceShape&) = default;
};

struct SliceRecord {
  std::string name;
  SliceShape shape;
  friend bool operator==(const SliceRecord&, const SliceRecord&) = default;
};

// In TenantRecord::slices, for every slice that there is.
inline constexpr char kAnySlice[] = "any";

struct TenantRecord {
  std::string name;
  // The SHA-256 of the credential, in hex. Credentials are random, so a slow hash is not needed.
  std::string credential_hash;
  uint64_t memory_bytes = 0;         // For all leases together; 0 for no limit.
  uint32_t max_leases = 0;           // 0 for no limit.
  uint32_t max_lease_sessions = 64;  // For one lease.
  uint64_t max_seconds = 0;          // The longest time that a lease may last; 0 for no limit.
  uint32_t max_sessions = 0;         // For all leases together; 0 for no limit.
  Rights rights = kAllRights;        // Those of its sessions.
  TierSet tiers = kAllTiers;         // What its sessions may be of.
  // What they are of where nobody says.
  TierChoice tier = TierChoice::kIsolated;
  // Of each of its leases where others want the device, too (DeviceSlice).
  uint32_t weight = 1;
  uint32_t copy_weight = 1;
  uint32_t priority = 0;
  // The slices that its leases may be of, of which the first is that of a lease that names none;
  // empty for none, and kAnySlice alone for whichever a lease names.
  std::vector<std::string> slices = {};
  // The tenant that it is below, whose limits hold for it as well; empty at the top.
  std::string parent = {};
  // Memory that it, and those below it, can count on; 0 for none.
  uint64_t reserved_bytes = 0;
  // The namespaces of a Kubernetes cluster whose ServiceAccounts' tokens are credentials of it. No
  // two tenants have the same.
  std::vector<std::string> namespaces = {};
};

struct DeviceRecord {
  std::string uuid;
  std::string name;
  std::string backend;
  uint64_t capacity_bytes = 0;
  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};

struct ServerRecord {
  std::string name;
  std::string endpoint;
  std::string version;
  std::vector<DeviceRecord> devices;
  friend bool operator==(const ServerRecord&, const ServerRecord&) = default;
};

// A server may report by its name to whoever shows this credential.
struct CredentialRecord {
  std::string server;
  std::string hash;  // In the form of TenantRecord::credential_hash.
  friend bool operator==(const CredentialRecord&, const CredentialRecord&) = default;
};

// A server gets no new leases.
struct CordonRecord {
  std::string server;
  std::string reason;
  // When the leases that it has end; InfiniteFuture() when they may stay.
  absl::Time drained = absl::InfiniteFuture();
  friend bool operator==(const CordonRecord&, const CordonRecord&) = default;
};

// The end of a server's audit, in the form of audit::FormatAnchor().
struct AuditHead {
  std::string server;
  std::string head;
  std::string lost;  // One that the server had and had no more later; empty for none.
  friend bool operator==(const AuditHead&, const AuditHead&) = default;
};

enum class LeaseState {
  kActive,
  kRevoked,   // By the operator, or because it ran out. Kept until its sessions have been told why.
  kReleased,  // By its holder. Kept for as long.
};

// How a lease came to its server from another one. It stays known, so that both servers can be told
// whose the sessions are, whatever happens to the scheduler.
struct MovedLease {
  uint64_t number = 0;  // The move's (LeaseToken::move); 0 for a lease that has never moved.
  std::string from = {};
  uint64_t from_instance = 0;  // The process of `from` that had its sessions (ServerInstance).
  absl::Time at = absl::UnixEpoch();
  // The numbers of its sessions, at `from` and here.
  std::vector<std::pair<uint64_t, uint64_t>> sessions = {};
  friend bool operator==(const MovedLease&, const MovedLease&) = default;
};

struct LeaseRecord {
  std::string id;
  std::string tenant;
  std::string server;
  std::vector<std::string> devices;  // Devices of that server, at least one.
  uint64_t memory_bytes = 0;         // On each device.
  uint32_t max_sessions = 0;
  std::string program;
  uint32_t pid = 0;
  // The lease is not renewed; it lives while it has sessions.
  bool by_sessions = false;
  LeaseState state = LeaseState::kActive;
  EndReason reason;
  absl::Time created;
  absl::Time expires;  // For a lease that is not active: when it is forgotten.
  absl::Time ends = absl::InfiniteFuture();  // The end, even if it is renewed.
  // The slice that it is of, as that was when the lease was made; without a name for none.
  SliceRecord slice = {};
  // The client certificate for which the latest token is; empty for none.
  CertificateHolder holder = {};
  MovedLease moved = {};

  // The memory on all devices together.
  uint64_t total_bytes() const { return memory_bytes * devices.size(); }
};

// Why leases that end together end, and when they are forgotten.
struct LeaseEnd {
  EndReason reason;
  absl::Time forget;
};

// A time as stores keep it: milliseconds since 1970, and 0 for one that never comes.
inline int64_t ToMs(absl::Time time) {
  return time == absl::InfiniteFuture() ? 0 : absl::ToUnixMillis(time);
}

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_RECORDS_H_
