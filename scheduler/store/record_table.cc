#include "scheduler/store/record_table.h"

namespace warpline::scheduler {
namespace {

using ByTime = LeaseIndex::ByTime;

void RemoveFrom(std::map<std::string, ByTime>* sets, const std::string& name,
                const ByTime::value_type& entry) {
  const auto found = sets->find(name);
  if (found == sets->end()) return;
  found->second.erase(entry);
  if (found->second.empty()) sets->erase(found);
}

const ByTime& Of(const std::map<std::string, ByTime>& sets, const std::string& name) {
  static const auto* const none = new ByTime();
  const auto found = sets.find(name);
  return found == sets.end() ? *none : found->second;
}

}  // namespace

void LeaseIndex::Add(const LeaseRecord& lease) {
  const ByTime::value_type entry = {lease.expires, lease.id};
  by_expiry_.insert(entry);
  if (lease.state == LeaseState::kActive) {
    active_.insert(lease.id);
    return;
  }
  ended_of_tenant_[lease.tenant].insert(entry);
  ended_of_server_[lease.server].insert(entry);
}

void LeaseIndex::Remove(const LeaseRecord& lease) {
  const ByTime::value_type entry = {lease.expires, lease.id};
  by_expiry_.erase(entry);
  active_.erase(lease.id);
  RemoveFrom(&ended_of_tenant_, lease.tenant, entry);
  RemoveFrom(&ended_of_server_, lease.server, entry);
}

const ByTime& LeaseIndex::ended_of_tenant(const std::string& tenant) const {
  return Of(ended_of_tenant_, tenant);
}

const ByTime& LeaseIndex::ended_of_server(const std::string& server) const {
  return Of(ended_of_server_, server);
}

}  // namespace warpline::scheduler
