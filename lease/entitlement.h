// What a session is entitled to: for which tenant it runs, on which devices, with how much of each,
// and what it may do there.
//
// It is made once for each session from its token, where the session is admitted (LeaseBook::Join()
// in server/gpu_server/leases/), and is passed from there to everything that acts for the session.
// It is never missing: a session without a lease has an entitlement of its own, with all rights.
#ifndef WARPLINE_LEASE_ENTITLEMENT_H_
#define WARPLINE_LEASE_ENTITLEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lease/rights.h"
#include "proto/tier.h"

namespace warpline {

// The tenant of sessions without a lease, and of leases that a server issues itself.
inline constexpr char kLocalTenant[] = "local";

// Weights are from 1 to this.
inline constexpr uint32_t kMostWeight = 1000;
// Priorities of leases are from 0 to this.
inline constexpr uint32_t kMostPriority = 100;
// Periods of reservations are from 2 milliseconds to this.
inline constexpr uint32_t kMostPeriodMs = 1000;

// The part of each device that a session gets.
struct DeviceSlice {
  // --- Enforced.
  // Memory of each device for all sessions of a lease together; 0 for all that the server gives.
  uint64_t memory_bytes = 0;
  // At most so much of that is on the device at a time, and the rest on the host meanwhile; 0 for
  // no such limit.
  uint64_t resident_bytes = 0;
  // Host memory that all sessions of a lease together may share with the server, page-locked or as
  // staging for copies; 0 for as large a part of the server's as memory_bytes is of the device's.
  uint64_t staging_bytes = 0;
  // What one session may have: handles, and bytes of loaded modules.
  uint64_t max_handles = 1u << 20;
  uint64_t max_module_bytes = 4ull << 30;
  // The commands of one session that may be sent and not complete; 0 for the server's default.
  uint32_t max_commands = 0;
  // The longest time that one launch may run.
  absl::Duration launch_time_limit = absl::InfiniteDuration();

  // --- Enforced on the guarded tier.
  uint32_t sm_percent = 100;  // Share of the device's multiprocessors, 1 to 100.

  // --- Enforced where the server dispatches (server/gpu_server/dispatch).
  // The lease's sessions together have time on a device, and its way to and from the host, by their
  // weights among those who want it at the moment. Policies that ask for it go by priority first.
  uint32_t weight = 1;
  uint32_t copy_weight = 1;
  // Whether that is the tenant's weight, which all its leases that say so have together on a
  // device.
  bool tenants_weight = false;
  bool tenants_copy_weight = false;
  int32_t priority = 0;
  // The reservation: so much time of each engine in each period, for policies that ask. Zero for
  // none.
  absl::Duration period = absl::ZeroDuration();
  absl::Duration budget = absl::ZeroDuration();
  // Whether a policy may have its sessions ended at once when more urgent work waits.
  bool best_effort = false;

  // --- Carried from the token to where it will be enforced, but not enforced yet.
  uint32_t hardware_queues = 0;  // 0 for the number that the server gives to every session.
};

struct Entitlement {
  // Both are empty for a session without a lease.
  std::string tenant = {};
  std::string lease = {};
  // "GPU-<uuid>" each, in the order in which the session sees them. Empty when the session itself
  // says which it wants.
  std::vector<std::string> devices = {};
  DeviceSlice slice = {};
  Rights rights = kAllRights;
  TierSet tiers = kAllTiers;  // What its sessions may be of, where the server has it.
  // After this time the token opens no session.
  absl::Time expires = absl::InfiniteFuture();
  // The time when the lease ends, whether or not it is still held.
  absl::Time ends = absl::InfiniteFuture();

  bool leased() const { return !lease.empty(); }
  bool AllowsTier(Tier tier) const { return (tiers & SetOf(tier)) != 0; }
  bool Allows(Capability capability) const { return warpline::Allows(rights, capability); }
  // The bytes that it may hold on a device that gives `capacity_bytes` in all.
  uint64_t MemoryOn(uint64_t capacity_bytes) const {
    return slice.memory_bytes == 0 || slice.memory_bytes > capacity_bytes ? capacity_bytes
                                                                          : slice.memory_bytes;
  }
  // The tenant whose cached contents, such as module images, the session may find. Sessions without
  // a lease, and the server's own leases, belong to people on their own and share one name.
  std::string contents_tenant() const { return leased() ? tenant : kLocalTenant; }
};

// Whether a session may have memory that its client and the device share. What kernels and copies
// write there the client sees, and the other way round, without a command that has a right of its
// own: so it takes both rights to copy, and that to hold memory.
inline bool MayShareHostMemory(const Entitlement& entitlement) {
  return entitlement.Allows(Capability::kCopyIn) && entitlement.Allows(Capability::kCopyOut) &&
         entitlement.Allows(Capability::kMemory);
}

// Reads device names as people and messages write them: separated by commas, with blanks around
// each ignored. An empty text names none.
std::vector<std::string> ParseDeviceNames(absl::string_view text);
std::string FormatDeviceNames(const std::vector<std::string>& names);

}  // namespace warpline

#endif  // WARPLINE_LEASE_ENTITLEMENT_H_
