#include "scheduler/etcd/state_image.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace warpline::scheduler {

void StateImage::PutLease(LeaseRecord lease) {
  if (lease.state == LeaseState::kActive) {
    active_.insert(lease.id);
  } else {
    active_.erase(lease.id);
  }
  const std::string id = lease.id;
  leases_[id] = std::move(lease);
}

void StateImage::RemoveLease(const std::string& id) {
  active_.erase(id);
  leases_.erase(id);
}

const LeaseRecord* StateImage::FindLease(const std::string& id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

std::vector<LeaseRecord> StateImage::Leases() const {
  auto all = LeasesWhere([](const LeaseRecord&) { return true; });
  std::sort(all.begin(), all.end(), [](const LeaseRecord& a, const LeaseRecord& b) {
    return std::tie(a.created, a.id) < std::tie(b.created, b.id);
  });
  return all;
}

std::vector<LeaseRecord> StateImage::ActiveLeases() const {
  std::vector<LeaseRecord> active;
  active.reserve(active_.size());
  for (const std::string& id : active_) active.push_back(leases_.find(id)->second);
  return active;
}

std::vector<LeaseRecord> StateImage::LeasesWhere(
    const std::function<bool(const LeaseRecord&)>& chosen) const {
  std::vector<LeaseRecord> leases;
  for (const auto& [id, lease] : leases_) {
    if (chosen(lease)) leases.push_back(lease);
  }
  return leases;
}

}  // namespace warpline::scheduler
