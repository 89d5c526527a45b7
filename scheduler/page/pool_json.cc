#include "scheduler/page/pool_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace warpline::scheduler::page {
namespace {

using nlohmann::json;

// Members that have their usual value are left out.
template <typename Value>
void Put(json* to, const char* name, const Value& value, const Value& usual = {}) {
  if (value != usual) (*to)[name] = value;
}

void PutTime(json* to, const char* name, absl::Time time) {
  if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return;
  (*to)[name] = absl::ToUnixMillis(time);
}

json ServerJson(const ServerInPool& server) {
  json to = {{"name", server.record.name}, {"state", server.state}, {"gpus", json::array()}};
  Put(&to, "endpoint", server.record.endpoint);
  Put(&to, "version", server.record.version);
  Put(&to, "cordoned", server.cordoned);
  Put(&to, "reason", server.cordon_reason);
  PutTime(&to, "drained_ms", server.drained);
  PutTime(&to, "heard_ms", server.heard);
  for (size_t i = 0; i < server.record.devices.size(); ++i) {
    const DeviceRecord& device = server.record.devices[i];
    to["gpus"].push_back({{"n", server.numbers[i]},
                          {"uuid", device.uuid},
                          {"model", device.name},
                          {"bytes", device.capacity_bytes}});
  }
  return to;
}

// Where a device is on its server.
using Numbers = std::map<std::pair<std::string, std::string>, uint32_t>;

Numbers NumbersOf(const PoolSnapshot& pool) {
  Numbers numbers;
  for (const ServerInPool& server : pool.servers) {
    for (size_t i = 0; i < server.record.devices.size(); ++i) {
      numbers[{server.record.name, server.record.devices[i].uuid}] = server.numbers[i];
    }
  }
  return numbers;
}

json LeaseJson(const LeaseRecord& lease, const PoolSnapshot& pool, const Numbers& numbers) {
  json to = {
      {"id", lease.id},        {"tenant", lease.tenant},      {"server", lease.server},
      {"gpus", json::array()}, {"bytes", lease.memory_bytes}, {"max_sessions", lease.max_sessions}};
  for (const std::string& uuid : lease.devices) {
    const auto found = numbers.find({lease.server, uuid});
    // -1 for a device that is not there at the moment.
    to["gpus"].push_back(found == numbers.end() ? int64_t{-1} : int64_t{found->second});
  }
  Put(&to, "program", lease.program);
  Put(&to, "slice", lease.slice.name);
  Put(&to, "sm_percent", lease.slice.shape.sm_percent);
  PutTime(&to, "created_ms", lease.created);
  PutTime(&to, "ends_ms", lease.ends);
  if (const auto found = pool.sessions.find(lease.id); found != pool.sessions.end()) {
    to["sessions"] = found->second;
  }
  if (const auto found = pool.notices.find(lease.id); found != pool.notices.end()) {
    PutTime(&to, "ending_ms", found->second.deadline);
    to["ending_why"] = found->second.reason.text;
  }
  return to;
}

json EndedJson(const LeaseRecord& lease, absl::Duration afterlife) {
  json to = {{"id", lease.id},
             {"tenant", lease.tenant},
             {"server", lease.server},
             {"gpus", lease.devices.size()},
             {"bytes", lease.memory_bytes},
             {"why", lease.reason.text}};
  Put(&to, "program", lease.program);
  PutTime(&to, "at_ms", lease.expires - afterlife);
  return to;
}

json TenantJson(const TenantRecord& tenant) {
  json to = {{"name", tenant.name}};
  Put(&to, "parent", tenant.parent);
  Put(&to, "limit", tenant.memory_bytes);
  Put(&to, "reserved", tenant.reserved_bytes);
  Put(&to, "max_leases", tenant.max_leases);
  Put(&to, "max_sessions", tenant.max_sessions);
  Put(&to, "priority", tenant.priority);
  Put(&to, "weight", tenant.weight, 1u);
  Put(&to, "slices", tenant.slices);
  return to;
}

json SliceJson(const SliceRecord& slice) {
  json to = {{"name", slice.name}};
  Put(&to, "bytes", slice.shape.memory_bytes);
  Put(&to, "resident_bytes", slice.shape.resident_bytes);
  Put(&to, "sm_percent", slice.shape.sm_percent);
  Put(&to, "max_sessions", slice.shape.max_sessions);
  Put(&to, "launch_ms", slice.shape.launch_ms);
  Put(&to, "weight", slice.shape.weight);
  Put(&to, "priority", slice.shape.priority);
  Put(&to, "period_ms", slice.shape.period_ms);
  Put(&to, "budget_ms", slice.shape.budget_ms);
  return to;
}

json WaitingJson(const WaitingInPool& waiting) {
  constexpr const char* kWhy[] = {"members", "pick_up", "set_aside", "limit", "room"};
  json to = {{"number", waiting.number},
             {"tenant", waiting.tenant},
             {"gpus", waiting.gpus},
             {"position", waiting.position},
             {"why", kWhy[static_cast<size_t>(waiting.why)]}};
  Put(&to, "bytes", waiting.memory_bytes);
  Put(&to, "sm_percent", waiting.sm_percent);
  Put(&to, "priority", waiting.priority);
  Put(&to, "gang", waiting.gang);
  Put(&to, "members", waiting.members, 1u);
  Put(&to, "asking", waiting.asking, 1u);
  Put(&to, "named", waiting.named);
  Put(&to, "limit_of", waiting.limit_of);
  PutTime(&to, "since_ms", waiting.since);
  return to;
}

// The latest first, as far as they are told.
std::vector<const LeaseRecord*> Ended(const PoolSnapshot& pool) {
  std::vector<const LeaseRecord*> ended;
  for (const LeaseRecord& lease : pool.leases) {
    if (lease.state == LeaseState::kRevoked) ended.push_back(&lease);
  }
  std::sort(ended.begin(), ended.end(), [](const LeaseRecord* a, const LeaseRecord* b) {
    return std::pair(b->expires, b->id) < std::pair(a->expires, a->id);
  });
  if (ended.size() > kMostEnded) ended.resize(kMostEnded);
  return ended;
}

}  // namespace

std::string PoolJson(const PoolSnapshot& pool, const Viewer& viewer, const std::string& leader) {
  json to = {{"operator", viewer.is_operator}, {"servers", json::array()},
             {"leases", json::array()},        {"tenants", json::array()},
             {"slices", json::array()},        {"waiting", json::array()},
             {"ended", json::array()}};
  Put(&to, "tenant", viewer.tenant);
  Put(&to, "follower", pool.from_follower);
  Put(&to, "leader", leader);
  Put(&to, "epoch", pool.epoch);
  for (const ServerInPool& server : pool.servers) to["servers"].push_back(ServerJson(server));
  const Numbers numbers = NumbersOf(pool);
  for (const LeaseRecord& lease : pool.leases) {
    if (lease.state != LeaseState::kActive) continue;
    to["leases"].push_back(LeaseJson(lease, pool, numbers));
  }
  for (const TenantRecord& tenant : pool.tenants) to["tenants"].push_back(TenantJson(tenant));
  for (const SliceRecord& slice : pool.slices) to["slices"].push_back(SliceJson(slice));
  for (const WaitingInPool& waiting : pool.waiting) to["waiting"].push_back(WaitingJson(waiting));
  for (const LeaseRecord* const lease : Ended(pool)) {
    to["ended"].push_back(EndedJson(*lease, pool.afterlife));
  }
  return to.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace warpline::scheduler::page
