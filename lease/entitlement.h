// What a session is entitled to: for whom it runs, on which devices, with how much of each, and
// what it may do there.
//
// Made once for each session, of its token, where the session is let in (LeaseBook::Join() in
// server/leases/), and handed from there to all that acts for the session. It is never missing: a
// session without a lease has an entitlement of its own, with all rights.
#ifndef WARPLINE_LEASE_ENTITLEMENT_H_
#define WARPLINE_LEASE_ENTITLEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lease/rights.h"

namespace warpline {

// The tenant of sessions without a lease, and of leases that a server gives itself.
inline constexpr char kLocalTenant[] = "local";

// A part of each device.
struct DeviceSlice {
  // --- Enforced.
  // Memory of each device, by all sessions of a lease together; 0 for all that the server gives.
  uint64_t memory_bytes = 0;
  // Of one session: handles that it may have, and bytes of loaded modules.
  uint64_t max_handles = 1u << 20;
  uint64_t max_module_bytes = 4ull << 30;

  // --- Carried from the token to all who will enforce it, and enforced by nobody yet.
  uint32_t sm_percent = 100;  // Of the device's multiprocessors, 1 to 100.
  // Of two sessions that both have work, that of higher priority goes first; of equals, each gets
  // time by its weight.
  int32_t priority = 0;
  uint32_t weight = 1;
  // How long one launch may run.
  absl::Duration launch_time_limit = absl::InfiniteDuration();
  uint32_t hardware_queues = 0;  // 0 for what the server gives to all.
};

struct Entitlement {
  // Both empty for a session without a lease.
  std::string tenant = {};
  std::string lease = {};
  // "GPU-<uuid>" each, in the order in which the session is to see them. Empty for what the session
  // asks for.
  std::vector<std::string> devices = {};
  DeviceSlice slice = {};
  Rights rights = kAllRights;
  // Opens no session afterwards.
  absl::Time expires = absl::InfiniteFuture();
  // When the lease ends whoever holds it.
  absl::Time ends = absl::InfiniteFuture();

  bool leased() const { return !lease.empty(); }
  bool Allows(Capability capability) const { return warpline::Allows(rights, capability); }
  // What it may hold of a device that gives `capacity_bytes` altogether.
  uint64_t MemoryOn(uint64_t capacity_bytes) const {
    return slice.memory_bytes == 0 || slice.memory_bytes > capacity_bytes ? capacity_bytes
                                                                          : slice.memory_bytes;
  }
  // Whose contents, such as module images, it may find: those of sessions without a lease are of
  // people on their own, like those of the server's own leases.
  std::string contents_tenant() const { return leased() ? tenant : kLocalTenant; }
};

// Devices as people and messages write them: names with commas between, blanks around each
// ignored. An empty text has none.
std::vector<std::string> ParseDeviceNames(absl::string_view text);
std::string FormatDeviceNames(const std::vector<std::string>& names);

}  // namespace warpline

#endif  // WARPLINE_LEASE_ENTITLEMENT_H_
