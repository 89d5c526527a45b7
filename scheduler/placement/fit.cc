#include "scheduler/placement/fit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::placement {
namespace {

constexpr uint64_t kDefaultShare = 4;
// How many servers with equally many free devices are looked at for the best connected ones.
constexpr size_t kLookAt = 8;

uint64_t WantedOf(uint64_t capacity, const Want& want) {
  const uint64_t bytes = want.memory_bytes != 0 ? want.memory_bytes : capacity / kDefaultShare;
  return bytes - bytes % kMemoryUnit;
}

// Of thousandths.
std::string Percent(uint32_t milli) {
  return milli % 10 == 0 ? absl::StrCat(milli / 10) : absl::StrCat(milli / 10, ".", milli % 10);
}

// A smaller one is better.
std::tuple<uint64_t, uint32_t, uint32_t> RankOf(const DeviceState& device, uint32_t position,
                                                Order order) {
  const uint64_t free = device.free_bytes();
  return {order == Order::kPack ? free : ~free, device.weights, position};
}

// How well devices are connected: 0 all by NVLink, or nothing is known of that, 1 on one NUMA node,
// 2 otherwise.
int Distance(const ServerState& server, const std::vector<uint32_t>& devices) {
  bool nvlink = true;
  bool numa = true;
  const DeviceSpec& first = server.devices[devices.front()].spec;
  if (devices.size() == 1 || (first.nvlink_group == 0 && first.numa_group == 0)) return 0;
  for (const uint32_t i : devices) {
    const DeviceSpec& spec = server.devices[i].spec;
    nvlink = nvlink && first.nvlink_group != 0 && spec.nvlink_group == first.nvlink_group;
    numa = numa && first.numa_group != 0 && spec.numa_group == first.numa_group;
  }
  return nvlink ? 0 : numa ? 1 : 2;
}

// The smallest group that has `gpus` of the positions; empty when none has.
std::vector<uint32_t> SmallestGroup(const ServerState& server,
                                    const std::vector<uint32_t>& positions, uint32_t gpus,
                                    uint32_t DeviceSpec::*group) {
  std::map<uint32_t, std::vector<uint32_t>> groups;
  for (const uint32_t i : positions) {
    const uint32_t number = server.devices[i].spec.*group;
    if (number != 0) groups[number].push_back(i);
  }
  std::vector<uint32_t> smallest;
  for (auto& [number, members] : groups) {
    if (members.size() < gpus) continue;
    if (smallest.empty() || members.size() < smallest.size()) smallest = std::move(members);
  }
  return smallest;
}

// The best site of one server among the positions that `may_take` takes.
struct Candidate {
  int distance = 0;
  std::tuple<uint64_t, uint32_t, uint32_t> worst;  // The rank of its worst device.
  std::vector<uint32_t> devices;
};

std::optional<Candidate> BestOf(const ServerState& server, const Want& want, Order order,
                                MayTake may_take) {
  std::vector<uint32_t> fitting;
  for (uint32_t i = 0; i < server.devices.size(); ++i) {
    if (may_take(server, server.devices[i]) && Fits(server.devices[i], want)) fitting.push_back(i);
  }
  if (fitting.size() < want.gpus) return std::nullopt;
  Candidate candidate;
  candidate.devices = PickDevices(server, std::move(fitting), want.gpus, order);
  candidate.distance = Distance(server, candidate.devices);
  candidate.worst = {0, 0, 0};
  for (const uint32_t i : candidate.devices) {
    candidate.worst = std::max(candidate.worst, RankOf(server.devices[i], i, order));
  }
  return candidate;
}

std::optional<Site> Scan(const Pool& pool, const Want& want, Order order, MayTake may_take) {
  std::optional<Candidate> best;
  uint32_t where = 0;
  for (uint32_t i = 0; i < pool.servers().size(); ++i) {
    const ServerState& server = pool.servers()[i];
    if (!server.usable || server.devices.size() < want.gpus) continue;
    auto candidate = BestOf(server, want, order, may_take);
    if (!candidate.has_value()) continue;
    if (best.has_value() &&
        std::tie(best->distance, best->worst) <= std::tie(candidate->distance, candidate->worst)) {
      continue;
    }
    best = std::move(candidate);
    where = i;
  }
  if (!best.has_value()) return std::nullopt;
  return SiteOf(pool, want, where, std::move(best->devices));
}

bool IsFree(const ServerState&, const DeviceState& device) { return device.held_for == 0; }

// A server with so many wholly free devices of one capacity: the one with the fewest or the most.
std::optional<Site> FindWhole(const Pool& pool, const Want& want, Order order, uint64_t capacity,
                              const CapacityIndex& index) {
  const auto free_and_whole = [&](const ServerState&, const DeviceState& device) {
    return device.held_for == 0 && device.whole() && device.spec.capacity_bytes == capacity;
  };
  std::optional<Candidate> best;
  uint32_t where = 0;
  // Looks at servers with `count` free devices; true when none can be better than the best.
  const auto look = [&](uint32_t count) {
    size_t looked = 0;
    for (auto it = index.whole.lower_bound({count, 0});
         it != index.whole.end() && it->first == count && looked < kLookAt; ++it, ++looked) {
      auto candidate = BestOf(pool.servers()[it->second], want, order, free_and_whole);
      if (!candidate.has_value()) continue;
      if (best.has_value() && best->distance <= candidate->distance) continue;
      best = std::move(candidate);
      where = it->second;
      if (best->distance == 0) return true;
    }
    return false;
  };
  auto next = index.whole.lower_bound({want.gpus, 0});
  if (next == index.whole.end()) return std::nullopt;
  if (order == Order::kPack) {
    for (; next != index.whole.end() && !look(next->first);) {
      next = index.whole.lower_bound({next->first + 1, 0});
    }
  } else {
    uint32_t count = index.whole.rbegin()->first;
    while (count >= want.gpus && !look(count)) {
      const auto group = index.whole.lower_bound({count, 0});
      if (group == index.whole.begin()) break;
      count = std::prev(group)->first;
    }
  }
  if (!best.has_value()) return std::nullopt;
  return SiteOf(pool, want, where, std::move(best->devices));
}

// The best device that has a lease already, of one capacity.
std::optional<DeviceAt> FindPartial(const Pool& pool, const Want& want, Order order,
                                    uint64_t capacity, const CapacityIndex& index) {
  const uint64_t wanted = WantedOf(capacity, want);
  if (order == Order::kPack) {
    for (auto it = index.partial.lower_bound({wanted, 0, {0, 0}}); it != index.partial.end();
         ++it) {
      if (Fits(pool.at(std::get<2>(*it)), want)) return std::get<2>(*it);
    }
    return std::nullopt;
  }
  // Among those with the most free memory, the first: so from the end, group by group.
  auto end = index.partial.end();
  while (end != index.partial.begin()) {
    const uint64_t free = std::get<0>(*std::prev(end));
    if (free < wanted) break;
    const auto group = index.partial.lower_bound({free, 0, {0, 0}});
    for (auto it = group; it != end; ++it) {
      if (Fits(pool.at(std::get<2>(*it)), want)) return std::get<2>(*it);
    }
    end = group;
  }
  return std::nullopt;
}

std::optional<Site> FindOne(const Pool& pool, const Want& want, Order order) {
  std::optional<DeviceAt> best;
  const auto better = [&](DeviceAt a, DeviceAt b) {
    const uint64_t free_a = pool.at(a).free_bytes();
    const uint64_t free_b = pool.at(b).free_bytes();
    if (free_a != free_b) return (free_a < free_b) == (order == Order::kPack);
    return pool.at(a).weights < pool.at(b).weights;
  };
  std::optional<Site> whole;
  for (const auto& [capacity, index] : pool.by_capacity()) {
    const uint64_t wanted = WantedOf(capacity, want);
    if (wanted == 0 || wanted > capacity) continue;
    const auto partial = FindPartial(pool, want, order, capacity, index);
    if (partial.has_value() && (!best.has_value() || better(*partial, *best))) best = partial;
    // The smallest capacity that is enough is packed first, the largest is spread over.
    if (whole.has_value() && order == Order::kPack) continue;
    if (auto site = FindWhole(pool, want, order, capacity, index); site.has_value()) {
      whole = std::move(site);
    }
  }
  if (best.has_value() && order == Order::kSpread && whole.has_value()) {
    const DeviceAt at{whole->server, whole->devices.front()};
    if (!better(*best, at)) return whole;
  }
  if (best.has_value()) return SiteOf(pool, want, best->first, {best->second});
  return whole;
}

std::optional<Site> FindNamed(const Pool& pool, const Want& want, bool* somewhere) {
  *somewhere = false;
  std::vector<DeviceAt> firsts = pool.Named(want.named.front());
  std::sort(firsts.begin(), firsts.end());
  for (const DeviceAt& first : firsts) {
    if (!pool.servers()[first.first].usable) continue;
    std::vector<uint32_t> devices;
    bool fits = true;
    for (const std::string& uuid : want.named) {
      for (const DeviceAt& at : pool.Named(uuid)) {
        if (at.first != first.first) continue;
        devices.push_back(at.second);
        const DeviceState& device = pool.at(at);
        fits = fits && Fits(device, want) && device.held_for == 0;
      }
    }
    if (devices.size() != want.named.size()) continue;
    *somewhere = true;
    if (fits) return SiteOf(pool, want, first.first, std::move(devices));
  }
  return std::nullopt;
}

}  // namespace

uint64_t MemoryOn(const DeviceState& device, const Want& want) {
  const uint64_t wanted = WantedOf(device.spec.capacity_bytes, want);
  return wanted <= device.spec.capacity_bytes ? wanted : 0;
}

bool Fits(const DeviceState& device, const Want& want) {
  const uint64_t wanted = MemoryOn(device, want);
  return wanted != 0 && wanted <= device.free_bytes() && want.sm_percent <= device.free_sm() &&
         want.time_milli <= device.free_time();
}

bool CouldFit(const DeviceState& device, const Want& want) {
  return MemoryOn(device, want) != 0 && want.sm_percent <= kAllSm && want.time_milli <= kMostTime;
}

Site SiteOf(const Pool& pool, const Want& want, uint32_t server, std::vector<uint32_t> devices) {
  Site site;
  site.server = server;
  site.memory_bytes = MemoryOn(pool.at({server, devices.front()}), want);
  for (const uint32_t i : devices) {
    site.memory_bytes = std::min(site.memory_bytes, MemoryOn(pool.at({server, i}), want));
  }
  site.devices = std::move(devices);
  return site;
}

std::vector<uint32_t> PickDevices(const ServerState& server, std::vector<uint32_t> positions,
                                  uint32_t gpus, Order order) {
  if (gpus == 1) {
    // Of equal ones that whose group has the fewest, so that large groups stay whole.
    const auto rank = [&](uint32_t i) {
      const DeviceSpec& spec = server.devices[i].spec;
      const auto alike = std::count_if(positions.begin(), positions.end(), [&](uint32_t other) {
        return server.devices[other].spec.nvlink_group == spec.nvlink_group &&
               server.devices[other].spec.numa_group == spec.numa_group;
      });
      const auto [free, weights, position] = RankOf(server.devices[i], i, order);
      return std::tuple(free, weights, alike, position);
    };
    return {*std::min_element(positions.begin(), positions.end(),
                              [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); })};
  }
  std::vector<uint32_t> group = SmallestGroup(server, positions, gpus, &DeviceSpec::nvlink_group);
  if (group.empty()) group = SmallestGroup(server, positions, gpus, &DeviceSpec::numa_group);
  if (group.empty()) {
    group = std::move(positions);
  } else if (std::vector<uint32_t> node =
                 SmallestGroup(server, group, gpus, &DeviceSpec::numa_group);
             !node.empty()) {
    group = std::move(node);
  }
  std::sort(group.begin(), group.end(), [&](uint32_t a, uint32_t b) {
    return RankOf(server.devices[a], a, order) < RankOf(server.devices[b], b, order);
  });
  group.resize(gpus);
  std::sort(group.begin(), group.end());
  return group;
}

std::optional<Site> FindSite(const Pool& pool, const Want& want, Order order) {
  bool somewhere;
  if (!want.named.empty()) return FindNamed(pool, want, &somewhere);
  if (want.gpus == 1) return FindOne(pool, want, order);
  // Where no device that has a lease has as much free, the index of whole ones says all.
  std::optional<Site> whole;
  for (const auto& [capacity, index] : pool.by_capacity()) {
    const uint64_t wanted = WantedOf(capacity, want);
    if (wanted == 0 || wanted > capacity) continue;
    if (index.partial.lower_bound({wanted, 0, {0, 0}}) != index.partial.end() ||
        pool.by_capacity().size() > 1) {
      return Scan(pool, want, order, &IsFree);
    }
    whole = FindWhole(pool, want, order, capacity, index);
  }
  return whole;
}

std::optional<Site> FindSiteWhere(const Pool& pool, const Want& want, Order order,
                                  MayTake may_take) {
  if (!want.named.empty()) return std::nullopt;
  return Scan(pool, want, order, may_take);
}

bool MayFit(const Pool& pool, const Want& want, uint32_t sites) {
  if (!want.named.empty()) return true;
  uint64_t fit = 0;
  for (const auto& [capacity, index] : pool.by_capacity()) {
    const uint64_t wanted = WantedOf(capacity, want);
    if (wanted == 0 || wanted > capacity) continue;
    // Where parts of devices do, nothing is known without a look at each, nor where a server has
    // devices of several capacities.
    if (wanted <= capacity / 2 || pool.by_capacity().size() > 1 ||
        index.partial.lower_bound({wanted, 0, {0, 0}}) != index.partial.end()) {
      return true;
    }
    for (auto it = index.whole.lower_bound({want.gpus, 0}); it != index.whole.end() && fit < sites;
         ++it) {
      fit += it->first / want.gpus;
    }
  }
  return fit >= sites;
}

absl::Status WhyNot(const Pool& pool, const Want& want) {
  if (pool.usable_devices() == 0) {
    return absl::UnavailableError("no server with a device is up");
  }
  bool somewhere = true;
  if (!want.named.empty()) (void)FindNamed(pool, want, &somewhere);
  if (!somewhere) {
    return absl::NotFoundError(want.named.size() > 1 ? "no server that is up has all of the devices"
                                                     : "no server that is up has the device");
  }
  uint64_t most_free = 0;
  uint32_t most_sm = 0;
  uint32_t most_time = 0;
  size_t most_fitting = 0;
  for (const ServerState& server : pool.servers()) {
    if (!server.usable) continue;
    size_t fitting = 0;
    for (const DeviceState& device : server.devices) {
      const bool named =
          std::find(want.named.begin(), want.named.end(), device.spec.uuid) != want.named.end();
      if (device.held_for != 0 || (!want.named.empty() && !named)) continue;
      if (device.free_bytes() > most_free) most_sm = most_time = 0;
      most_free = std::max(most_free, device.free_bytes());
      if (device.free_bytes() == most_free) {
        most_sm = std::max(most_sm, device.free_sm());
        most_time = std::max(most_time, device.free_time());
      }
      if (Fits(device, want)) ++fitting;
    }
    most_fitting = std::max(most_fitting, fitting);
  }
  std::string wanted = want.memory_bytes == 0 ? "a quarter of a device"
                                              : absl::StrCat(want.memory_bytes >> 20, " MiB");
  if (want.sm_percent != 0) {
    absl::StrAppend(&wanted, " and ", want.sm_percent, " % of the multiprocessors");
  }
  if (want.time_milli != 0) {
    absl::StrAppend(&wanted, " and ", Percent(want.time_milli), " % of the time");
  }
  if (want.gpus > 1) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no capacity: ", wanted, " on each of ", want.gpus,
                     " devices of one server wanted, the server with the most has ", most_fitting,
                     " with as much free"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no capacity: ", wanted, " wanted, the device with the most free memory has ",
      most_free >> 20, " MiB",
      want.sm_percent == 0 ? "" : absl::StrCat(" and ", most_sm, " % of the multiprocessors"),
      want.time_milli == 0
          ? ""
          : absl::StrCat(" and ", Percent(most_time), " % of the time that is not reserved")));
}

bool CouldEverFit(const Pool& pool, const Want& want) {
  for (const ServerState& server : pool.servers()) {
    size_t fitting = 0;
    for (const DeviceState& device : server.devices) {
      const bool named = want.named.empty() || std::find(want.named.begin(), want.named.end(),
                                                         device.spec.uuid) != want.named.end();
      if (named && CouldFit(device, want)) ++fitting;
    }
    if (fitting >= want.gpus) return true;
  }
  return false;
}

}  // namespace warpline::placement
