// What there is in a pool and what of it is leased, with indexes by what is free.
//
//   Pool pool;
//   pool.PutServer("a", {{"GPU-1", 80 << 30}}, /*usable=*/true);
//   pool.Add({.id = "lease", .tenant = "t", .server = "a", .devices = {"GPU-1"}, .memory_bytes = 1
//   << 30});
//
// Servers have small numbers; what is equal otherwise goes by server number and by position on the
// server, so that the same pool gives the same choice.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_POOL_H_
#define WARPLINE_SCHEDULER_PLACEMENT_POOL_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"

namespace warpline::placement {

inline constexpr uint32_t kAllSm = 100;
// What of a device's time may be reserved, in thousandths. The rest is for changes of turns, for
// kernels that overrun and are paid for later, and for leases without a reservation.
inline constexpr uint32_t kMostTime = 900;
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

inline constexpr uint32_t kAnyNumber = std::numeric_limits<uint32_t>::max();
// How many servers a pool has at most.
inline constexpr uint32_t kMostServers = 1u << 16;

// A lease's memory is a multiple of this, so that no quota ends in a piece too small to use.
inline constexpr uint64_t kMemoryUnit = 2ull << 20;

struct DeviceSpec {
  std::string uuid = {};
  uint64_t capacity_bytes = 0;
  // Equal numbers within a server: NVLink to each other, the same NUMA node. 0 where not known.
  uint32_t nvlink_group = 0;
  uint32_t numa_group = 0;
  // A lease moves only between devices of one model.
  std::string model = {};
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

// A lease, as far as it takes room.
struct Allocation {
  std::string id = {};
  std::string tenant = {};
  std::string server = {};
  std::vector<std::string> devices = {};
  uint64_t memory_bytes = 0;  // On each device.
  uint32_t sm_percent = 0;
  uint32_t time_milli = 0;  // Reserved.
  uint32_t weight = 1;
  uint32_t priority = 0;
  uint32_t sessions = 0;
  int64_t since_ns = 0;
  int64_t ends_ns = kNever;
  uint64_t number = 0;      // Grows with each.
  uint64_t milli_gpus = 0;  // MilliGpus() of all its devices.
};

// A quarter of a GPU is what a request gets that names no memory.
inline constexpr uint64_t kUnnamedMilli = 250;

// The part of a device that these are, in thousandths: the largest of the three, and at least one.
inline uint64_t MilliGpus(uint64_t capacity_bytes, uint64_t bytes, uint32_t sm_percent,
                          uint32_t time_milli) {
  const uint64_t memory = capacity_bytes == 0 ? 1000 : bytes * 1000 / capacity_bytes;
  return std::clamp<uint64_t>(std::max<uint64_t>({memory, sm_percent * 10, time_milli}), 1, 1000);
}

struct DeviceState {
  DeviceSpec spec;
  uint64_t leased_bytes = 0;
  uint32_t leased_sm = 0;
  uint32_t leased_time = 0;
  uint32_t weights = 0;
  uint32_t leases = 0;
  uint64_t held_for = 0;  // The waiting request that it is set aside for; 0 for none.

  uint64_t free_bytes() const {
    return spec.capacity_bytes > leased_bytes ? spec.capacity_bytes - leased_bytes : 0;
  }
  uint32_t free_sm() const { return kAllSm > leased_sm ? kAllSm - leased_sm : 0; }
  uint32_t free_time() const { return kMostTime > leased_time ? kMostTime - leased_time : 0; }
  bool whole() const { return leases == 0; }
};

struct ServerState {
  std::string name;  // Empty for a number that no server has.
  bool usable = false;
  std::vector<DeviceState> devices;
  std::vector<const Allocation*> allocations;  // In no particular order.
};

// Where a device is: the server's number and the position there.
using DeviceAt = std::pair<uint32_t, uint32_t>;

// The usable devices of one capacity that are not set aside.
struct CapacityIndex {
  // (wholly free devices of a server, server), for servers with at least one.
  absl::btree_set<std::pair<uint32_t, uint32_t>> whole;
  // (free bytes, weights, device) of those that have a lease.
  absl::btree_set<std::tuple<uint64_t, uint32_t, DeviceAt>> partial;
};

// Thread-compatible. Leases may be on servers or devices that are not there at the moment: they
// take room when those come.
class Pool {
 public:
  Pool() = default;
  // Indexes point into it.
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  Pool(Pool&&) = default;
  Pool& operator=(Pool&&) = default;

  // Adds a server, or replaces what is known of it. Its number stays; a new one has `number`, if
  // that is free, or else the least free one.
  void PutServer(const std::string& name, const std::vector<DeviceSpec>& devices, bool usable,
                 uint32_t number = kAnyNumber);
  void RemoveServer(const std::string& name);
  // No-op for an unknown server.
  void SetUsable(const std::string& name, bool usable);

  // The id must be new.
  void Add(Allocation allocation);
  // Null for an unknown lease. Good until it is removed.
  const Allocation* Find(const std::string& id) const;
  void Remove(const std::string& id);
  // The same for one that was only tried: what did not fit before it does not fit now.
  void Undo(const std::string& id);

  // Sets a device aside for a waiting request, or for nobody (0).
  void Hold(DeviceAt device, uint64_t waiting);

  // By number; some have no name.
  const std::vector<ServerState>& servers() const { return servers_; }
  // Null for an unknown server.
  const ServerState* FindServer(const std::string& name) const;
  // By capacity, ascending.
  const std::map<uint64_t, CapacityIndex>& by_capacity() const { return by_capacity_; }
  // The devices of this name, of any server; in no particular order.
  std::vector<DeviceAt> Named(const std::string& uuid) const;
  const DeviceState& at(DeviceAt device) const {
    return servers_[device.first].devices[device.second];
  }
  const absl::node_hash_map<std::string, Allocation>& allocations() const { return allocations_; }
  // Devices that are set aside.
  const absl::btree_set<DeviceAt>& held() const { return held_; }
  size_t usable_servers() const { return usable_servers_; }
  uint64_t usable_devices() const { return usable_devices_; }

  // Grows with every change after which something may fit that did not.
  uint64_t growth() const { return growth_; }

 private:
  using WholeEntry = std::pair<uint32_t, uint32_t>;
  using PartialEntry = std::tuple<uint64_t, uint32_t, DeviceAt>;
  // Calls these for what the server's devices have in the indexes, or are to have.
  template <typename Whole, typename Partial>
  void ForEachEntry(uint32_t server, Whole whole, Partial partial);
  // Takes a server out of the indexes, or puts it there. What is between the two changes it.
  void Unindex(uint32_t server);
  void Index(uint32_t server);
  void Charge(const Allocation& allocation, ServerState* server, bool add);
  uint32_t NumberFor(const std::string& name, uint32_t wanted);

  std::vector<ServerState> servers_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  std::map<uint64_t, CapacityIndex> by_capacity_;
  std::unordered_multimap<std::string, DeviceAt> named_;
  absl::node_hash_map<std::string, Allocation> allocations_;
  // Leases of servers that are not known.
  absl::flat_hash_map<std::string, std::vector<const Allocation*>> homeless_;
  absl::btree_set<DeviceAt> held_;
  size_t usable_servers_ = 0;
  uint64_t usable_devices_ = 0;
  uint64_t growth_ = 1;
};

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_POOL_H_
