#include "scheduler/placement/pool.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

namespace warpline::placement {
namespace {

void Forget(const Allocation* allocation, std::vector<const Allocation*>* from) {
  const auto found = std::find(from->begin(), from->end(), allocation);
  if (found == from->end()) return;
  *found = from->back();
  from->pop_back();
}

}  // namespace

template <typename Whole, typename Partial>
void Pool::ForEachEntry(uint32_t number, Whole whole, Partial partial) {
  ServerState& server = servers_[number];
  // Servers have devices of one capacity, as a rule.
  absl::InlinedVector<std::pair<uint64_t, uint32_t>, 4> counts;
  for (uint32_t i = 0; i < server.devices.size(); ++i) {
    const DeviceState& device = server.devices[i];
    const uint64_t capacity = device.spec.capacity_bytes;
    auto count = std::find_if(counts.begin(), counts.end(),
                              [&](const auto& known) { return known.first == capacity; });
    if (count == counts.end()) count = counts.insert(counts.end(), {capacity, 0});
    if (device.held_for != 0) continue;
    if (device.whole()) {
      ++count->second;
    } else {
      partial(&by_capacity_[capacity], {device.free_bytes(), device.weights, {number, i}});
    }
  }
  for (const auto& [capacity, count] : counts) {
    CapacityIndex& index = by_capacity_[capacity];
    if (count != 0) whole(&index, {count, number});
  }
}

void Pool::Unindex(uint32_t number) {
  ServerState& server = servers_[number];
  if (!server.usable) return;
  --usable_servers_;
  usable_devices_ -= server.devices.size();
  ForEachEntry(
      number, [](CapacityIndex* index, WholeEntry entry) { index->whole.erase(entry); },
      [](CapacityIndex* index, PartialEntry entry) { index->partial.erase(entry); });
}

void Pool::Index(uint32_t number) {
  ServerState& server = servers_[number];
  if (!server.usable) return;
  ++usable_servers_;
  usable_devices_ += server.devices.size();
  ForEachEntry(
      number, [](CapacityIndex* index, WholeEntry entry) { index->whole.insert(entry); },
      [](CapacityIndex* index, PartialEntry entry) { index->partial.insert(entry); });
}

void Pool::Charge(const Allocation& allocation, ServerState* server, bool add) {
  for (const std::string& uuid : allocation.devices) {
    for (DeviceState& device : server->devices) {
      if (device.spec.uuid != uuid) continue;
      if (add) {
        device.leased_bytes += allocation.memory_bytes;
        device.leased_sm += allocation.sm_percent;
        device.leased_time += allocation.time_milli;
        device.weights += allocation.weight;
        ++device.leases;
      } else {
        device.leased_bytes -= allocation.memory_bytes;
        device.leased_sm -= allocation.sm_percent;
        device.leased_time -= allocation.time_milli;
        device.weights -= allocation.weight;
        --device.leases;
      }
    }
  }
}

uint32_t Pool::NumberFor(const std::string& name, uint32_t wanted) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  uint32_t number = 0;
  const bool taken = wanted < servers_.size() && !servers_[wanted].name.empty();
  if (wanted < kMostServers && !taken) {
    number = wanted;
  } else {
    // Servers come and go seldom.
    while (number < servers_.size() && !servers_[number].name.empty()) ++number;
  }
  if (number >= servers_.size()) servers_.resize(number + 1);
  servers_[number].name = name;
  numbers_[name] = number;
  if (const auto waiting = homeless_.find(name); waiting != homeless_.end()) {
    servers_[number].allocations = std::move(waiting->second);
    homeless_.erase(waiting);
  }
  return number;
}

void Pool::PutServer(const std::string& name, const std::vector<DeviceSpec>& devices, bool usable,
                     uint32_t wanted) {
  const uint32_t number = NumberFor(name, wanted);
  Unindex(number);
  ServerState& server = servers_[number];
  const std::vector<DeviceState> before = std::move(server.devices);
  server.devices.clear();
  for (uint32_t i = 0; i < before.size(); ++i) {
    held_.erase({number, i});
    const auto range = named_.equal_range(before[i].spec.uuid);
    for (auto it = range.first; it != range.second; ++it) {
      if (it->second != DeviceAt{number, i}) continue;
      named_.erase(it);
      break;
    }
    // No server can make capacities without end.
    const auto index = by_capacity_.find(before[i].spec.capacity_bytes);
    if (index != by_capacity_.end() && index->second.whole.empty() &&
        index->second.partial.empty()) {
      by_capacity_.erase(index);
    }
  }
  for (uint32_t i = 0; i < devices.size(); ++i) {
    server.devices.push_back({.spec = devices[i]});
    named_.emplace(devices[i].uuid, DeviceAt{number, i});
    for (const DeviceState& old : before) {
      if (old.spec.uuid != devices[i].uuid || old.held_for == 0) continue;
      server.devices[i].held_for = old.held_for;
      held_.insert({number, i});
    }
  }
  for (const Allocation* const allocation : server.allocations) Charge(*allocation, &server, true);
  server.usable = usable;
  Index(number);
  ++growth_;
}

void Pool::RemoveServer(const std::string& name) {
  if (numbers_.find(name) == numbers_.end()) return;
  PutServer(name, {}, /*usable=*/false);
  const uint32_t number = numbers_[name];
  ServerState& server = servers_[number];
  if (!server.allocations.empty()) homeless_[name] = std::move(server.allocations);
  server = ServerState();
  numbers_.erase(name);
}

void Pool::SetUsable(const std::string& name, bool usable) {
  const auto known = numbers_.find(name);
  if (known == numbers_.end() || servers_[known->second].usable == usable) return;
  Unindex(known->second);
  servers_[known->second].usable = usable;
  Index(known->second);
  if (usable) ++growth_;
}

void Pool::Add(Allocation allocation) {
  const std::string id = allocation.id;
  const Allocation& kept = allocations_[id] = std::move(allocation);
  const auto known = numbers_.find(kept.server);
  if (known == numbers_.end()) {
    homeless_[kept.server].push_back(&kept);
    return;
  }
  Unindex(known->second);
  ServerState& server = servers_[known->second];
  server.allocations.push_back(&kept);
  Charge(kept, &server, true);
  Index(known->second);
}

const Allocation* Pool::Find(const std::string& id) const {
  const auto found = allocations_.find(id);
  return found == allocations_.end() ? nullptr : &found->second;
}

void Pool::Remove(const std::string& id) {
  const auto found = allocations_.find(id);
  if (found == allocations_.end()) return;
  const Allocation& allocation = found->second;
  if (const auto known = numbers_.find(allocation.server); known != numbers_.end()) {
    Unindex(known->second);
    ServerState& server = servers_[known->second];
    Charge(allocation, &server, false);
    Forget(&allocation, &server.allocations);
    Index(known->second);
    ++growth_;
  } else if (const auto waiting = homeless_.find(allocation.server); waiting != homeless_.end()) {
    Forget(&allocation, &waiting->second);
    if (waiting->second.empty()) homeless_.erase(waiting);
  }
  allocations_.erase(found);
}

void Pool::Hold(DeviceAt device, uint64_t waiting) {
  if (device.first >= servers_.size()) return;
  ServerState& server = servers_[device.first];
  if (device.second >= server.devices.size()) return;
  Unindex(device.first);
  server.devices[device.second].held_for = waiting;
  Index(device.first);
  if (waiting != 0) {
    held_.insert(device);
  } else {
    held_.erase(device);
    ++growth_;
  }
}

void Pool::Undo(const std::string& id) {
  const uint64_t before = growth_;
  Remove(id);
  growth_ = before;
}

const ServerState* Pool::FindServer(const std::string& name) const {
  const auto known = numbers_.find(name);
  return known == numbers_.end() ? nullptr : &servers_[known->second];
}

std::vector<DeviceAt> Pool::Named(const std::string& uuid) const {
  std::vector<DeviceAt> found;
  const auto range = named_.equal_range(uuid);
  for (auto it = range.first; it != range.second; ++it) found.push_back(it->second);
  return found;
}

}  // namespace warpline::placement
