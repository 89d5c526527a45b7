// What the scheduler knows of its pool at one moment, as plain values: for those who show it.
#ifndef WARPLINE_SCHEDULER_POOL_SNAPSHOT_H_
#define WARPLINE_SCHEDULER_POOL_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/pool_allocator.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

struct ServerInPool {
  ServerRecord record;
  std::vector<uint32_t> numbers = {};  // Of the devices of `record`, as the server counts them.
  std::string state;                   // In the words of warpline_internal.Server.state.
  absl::Time heard = absl::InfinitePast();  // Of a server that is lost; otherwise not set.
  bool cordoned = false;
  std::string cordon_reason = {};
  absl::Time drained = absl::InfiniteFuture();
};

// A request that waits, or a gang of them.
struct WaitingInPool {
  enum class Why {
    kMembers,   // Not all of its gang have asked yet.
    kPickUp,    // It was placed, and is granted when it is asked for again.
    kSetAside,  // Devices are set aside for it as they become free.
    kLimit,     // A limit of `limit_of`, its tenant or one above.
    kRoom,      // It does not fit now.
  };
  uint64_t number = 0;
  std::string tenant;
  std::string gang = {};  // The name that the tenant gave it; empty for a single request.
  uint32_t members = 1;
  uint32_t asking = 1;  // Of its members.
  uint32_t gpus = 1;    // Of each member.
  std::vector<std::string> named = {};
  uint64_t memory_bytes = 0;  // Of each GPU; 0 for a quarter of it.
  uint32_t sm_percent = 0;
  uint32_t priority = 0;
  uint32_t position = 0;
  absl::Time since;
  Why why = Why::kRoom;
  std::string limit_of = {};
};

// No credential, token or key is in it.
struct PoolSnapshot {
  // It comes from a scheduler that does not lead, which knows what the state has: no sessions, no
  // requests that wait, and not whether servers are up.
  bool from_follower = false;
  uint64_t epoch = 0;
  // How long an ended lease is kept: it ended so long before it expires.
  absl::Duration afterlife;
  std::vector<ServerInPool> servers;           // By name.
  std::vector<LeaseRecord> leases;             // Of all states.
  std::map<std::string, uint32_t> sessions;    // By lease, for those that have any.
  std::map<std::string, LeaseNotice> notices;  // By lease, for active ones that end soon.
  std::vector<TenantRecord> tenants;           // Their hashes are empty.
  std::vector<SliceRecord> slices;
  std::vector<WaitingInPool> waiting;  // In the order in which they came.
};

// Who shows a credential.
struct Viewer {
  bool is_operator = false;
  std::string tenant = {};  // Of a tenant's credential.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_POOL_SNAPSHOT_H_
