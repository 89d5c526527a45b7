// The state as events.
#include <algorithm>
#include <utility>

#include "scheduler/placement/allocator.h"
#include "scheduler/placement/move_room.h"

namespace warpline::placement {
namespace {

using warpline_placement::Waiting;

void AddTenants(const QuotaTree& quotas, std::vector<Event>* events) {
  std::set<std::string> added;
  // Who is above comes first.
  for (size_t depth = 0; depth < kMaxDepth; ++depth) {
    for (const auto& [name, spec] : quotas.tenants()) {
      if (added.count(name) != 0) continue;
      if (!spec.parent.empty() && added.count(spec.parent) == 0) continue;
      added.insert(name);
      auto* const tenant = events->emplace_back().mutable_put_tenant();
      tenant->set_name(name);
      tenant->set_parent(spec.parent);
      tenant->set_memory_bytes(spec.memory_bytes);
      tenant->set_reserved_bytes(spec.reserved_bytes);
      tenant->set_max_leases(spec.max_leases);
      tenant->set_max_sessions(spec.max_sessions);
      tenant->set_weight(spec.weight);
    }
  }
}

void AddLeases(const Pool& pool, std::vector<Event>* events) {
  std::vector<const Allocation*> allocations;
  for (const auto& [id, allocation] : pool.allocations()) {
    if (!IsMoveRoom(id)) allocations.push_back(&allocation);
  }
  std::sort(allocations.begin(), allocations.end(),
            [](const Allocation* a, const Allocation* b) { return a->number < b->number; });
  for (const Allocation* const allocation : allocations) {
    auto* const lease = events->emplace_back().mutable_restore();
    lease->set_id(allocation->id);
    lease->set_tenant(allocation->tenant);
    lease->set_server(allocation->server);
    for (const std::string& uuid : allocation->devices) lease->add_devices(uuid);
    lease->mutable_shape()->set_memory_bytes(allocation->memory_bytes);
    lease->mutable_shape()->set_sm_percent(allocation->sm_percent);
    lease->mutable_shape()->set_time_milli(allocation->time_milli);
    lease->mutable_shape()->set_weight(allocation->weight);
    lease->set_priority(allocation->priority);
    lease->set_sessions(allocation->sessions);
    lease->set_ends_ns(allocation->ends_ns == kNever ? 0 : allocation->ends_ns);
    lease->set_number(allocation->number);
    lease->set_milli_gpus(allocation->milli_gpus);
    lease->set_since_ns(allocation->since_ns);
  }
}

}  // namespace

Place Allocator::PlaceOf(const Site& site) const {
  Place place;
  const ServerState& server = pool_.servers()[site.server];
  place.set_server(server.name);
  for (const uint32_t i : site.devices) {
    // A device may have gone since it was chosen.
    if (i < server.devices.size()) place.add_devices(server.devices[i].spec.uuid);
  }
  place.set_memory_bytes(site.memory_bytes);
  return place;
}

std::optional<Site> Allocator::SiteAt(const Place& place) const {
  Site site;
  const ServerState* const server = pool_.FindServer(place.server());
  if (server == nullptr) return std::nullopt;
  site.server = static_cast<uint32_t>(server - pool_.servers().data());
  for (const std::string& uuid : place.devices()) {
    for (uint32_t i = 0; i < server->devices.size(); ++i) {
      if (server->devices[i].spec.uuid == uuid) site.devices.push_back(i);
    }
  }
  site.memory_bytes = place.memory_bytes();
  return site;
}

std::vector<Event> Allocator::Snapshot(int64_t now_ns) const {
  std::vector<Event> events;
  AddTenants(quotas_, &events);
  for (uint32_t number = 0; number < pool_.servers().size(); ++number) {
    const ServerState& state = pool_.servers()[number];
    if (state.name.empty()) continue;
    auto* const server = events.emplace_back().mutable_put_server();
    server->set_name(state.name);
    server->set_up(up_.count(state.name) != 0);
    server->set_number(number + 1);
    for (const DeviceState& device : state.devices) {
      auto* const added = server->add_devices();
      added->set_uuid(device.spec.uuid);
      added->set_capacity_bytes(device.spec.capacity_bytes);
      added->set_nvlink_group(device.spec.nvlink_group);
      added->set_numa_group(device.spec.numa_group);
      added->set_model(device.spec.model);
    }
  }
  // Before the leases: the notices that a cordon brought follow by themselves.
  for (const auto& [name, cordon] : cordons_) *events.emplace_back().mutable_cordon() = cordon;
  AddLeases(pool_, &events);
  AddMoves(&events);
  for (const auto& [number, entry] : line_.entries()) {
    Waiting* const waiting = events.emplace_back().mutable_waiting();
    waiting->set_number(number);
    *waiting->mutable_ask() = entry->ask;
    waiting->set_since_ns(entry->since_ns);
    for (const auto& member : entry->asking) *waiting->add_members() = member;
    for (const Place& place : entry->places) *waiting->add_places() = place;
    waiting->set_pick_up_ns(entry->pick_up_ns);
    for (const Site& site : entry->reserved) *waiting->add_reserved() = PlaceOf(site);
    if (entry->reserved_until_ns != kNever) {
      waiting->set_reserved_until_ns(entry->reserved_until_ns);
    }
  }
  for (const auto& [lease, notice] : notices_) *events.emplace_back().mutable_notice() = notice;
  if (epoch_ends_ns_ != 0) {
    auto* const epoch = events.emplace_back().mutable_epoch();
    epoch->set_ends_ns(epoch_ends_ns_);
    for (const std::string& lease : lent_) epoch->add_lent(lease);
    for (const auto& [tenant, standing] : standings_) {
      auto* const to = epoch->add_standings();
      to->set_tenant(tenant);
      to->set_due(standing.due);
      to->set_had(standing.had);
    }
  }
  auto* const counters = events.emplace_back().mutable_counters();
  counters->set_next_lease(next_lease_);
  counters->set_next_waiting(next_waiting_);
  for (Event& event : events) event.set_at_ns(now_ns);
  return events;
}

void Allocator::RestoreWaiting(const Waiting& waiting) {
  Entry entry;
  entry.number = waiting.number();
  entry.ask = waiting.ask();
  entry.want = WantOf(waiting.ask());
  entry.members = MembersOf(waiting.ask());
  entry.since_ns = waiting.since_ns();
  entry.asking.assign(waiting.members().begin(), waiting.members().end());
  entry.pick_up_ns = waiting.pick_up_ns();
  entry.places.assign(waiting.places().begin(), waiting.places().end());
  Entry* const kept = line_.Add(std::move(entry));
  if (kept->placed()) placed_.insert(kept->number);
  std::vector<Site> reserved;
  for (const Place& place : waiting.reserved()) {
    if (auto site = SiteAt(place); site.has_value()) reserved.push_back(*std::move(site));
  }
  if (reserved.empty()) return;
  Reserve(kept, std::move(reserved),
          waiting.reserved_until_ns() == 0 ? kNever : waiting.reserved_until_ns());
}

}  // namespace warpline::placement
