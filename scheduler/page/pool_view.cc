#include "scheduler/page/pool_view.h"

#include <map>
#include <set>
#include <utility>

#include "lease/end_reason.h"

namespace warpline::scheduler::page {
namespace {

using Names = std::set<std::string>;

// The tenant and those below it.
Names Branch(const std::vector<TenantRecord>& tenants, const std::string& top) {
  std::multimap<std::string, std::string> below;
  for (const TenantRecord& tenant : tenants) below.emplace(tenant.parent, tenant.name);
  Names branch = {top};
  std::vector<std::string> open = {top};
  while (!open.empty()) {
    const std::string parent = std::move(open.back());
    open.pop_back();
    const auto [from, to] = below.equal_range(parent);
    for (auto child = from; child != to; ++child) {
      if (branch.insert(child->second).second) open.push_back(child->second);
    }
  }
  return branch;
}

// The devices with active leases, by server.
std::map<std::string, Names> DevicesOf(const std::vector<LeaseRecord>& leases) {
  std::map<std::string, Names> devices;
  for (const LeaseRecord& lease : leases) {
    if (lease.state != LeaseState::kActive) continue;
    devices[lease.server].insert(lease.devices.begin(), lease.devices.end());
  }
  return devices;
}

ServerInPool OnlyWith(const ServerInPool& server, const Names& devices) {
  ServerInPool seen;
  seen.record.name = server.record.name;
  seen.state = server.state;
  seen.heard = server.heard;
  seen.cordoned = server.cordoned;
  seen.drained = server.drained;
  for (size_t i = 0; i < server.record.devices.size() && i < server.numbers.size(); ++i) {
    if (devices.count(server.record.devices[i].uuid) == 0) continue;
    seen.record.devices.push_back(server.record.devices[i]);
    seen.numbers.push_back(server.numbers[i]);
  }
  return seen;
}

}  // namespace

PoolSnapshot SeenByTenant(const PoolSnapshot& pool, const std::string& tenant) {
  PoolSnapshot seen;
  // Tenants at the top are below "".
  if (tenant.empty()) return seen;
  const Names branch = Branch(pool.tenants, tenant);
  seen.from_follower = pool.from_follower;
  seen.epoch = pool.epoch;
  seen.afterlife = pool.afterlife;
  Names slices;
  for (const TenantRecord& one : pool.tenants) {
    if (branch.count(one.name) == 0) continue;
    seen.tenants.push_back(one);
    if (one.name == tenant) seen.tenants.back().parent.clear();
    seen.tenants.back().credential_hash.clear();
    slices.insert(one.slices.begin(), one.slices.end());
  }
  for (const SliceRecord& slice : pool.slices) {
    if (slices.count(slice.name) != 0 || slices.count(kAnySlice) != 0) seen.slices.push_back(slice);
  }
  for (const LeaseRecord& lease : pool.leases) {
    if (branch.count(lease.tenant) == 0) continue;
    seen.leases.push_back(lease);
    seen.leases.back().reason = {ReasonForTenant(lease.reason), EndCause::kNamesNobody};
    if (const auto found = pool.sessions.find(lease.id); found != pool.sessions.end()) {
      seen.sessions.insert(*found);
    }
    if (const auto found = pool.notices.find(lease.id); found != pool.notices.end()) {
      LeaseNotice& notice = seen.notices[lease.id];
      notice = found->second;
      notice.reason = {ReasonForTenant(notice.reason), EndCause::kNamesNobody};
    }
  }
  const auto devices = DevicesOf(seen.leases);
  for (const ServerInPool& server : pool.servers) {
    const auto found = devices.find(server.record.name);
    if (found != devices.end()) seen.servers.push_back(OnlyWith(server, found->second));
  }
  for (const WaitingInPool& waiting : pool.waiting) {
    if (branch.count(waiting.tenant) == 0) continue;
    seen.waiting.push_back(waiting);
    std::string& limit_of = seen.waiting.back().limit_of;
    if (branch.count(limit_of) == 0) limit_of.clear();
  }
  return seen;
}

}  // namespace warpline::scheduler::page
