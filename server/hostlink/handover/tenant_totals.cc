#include "server/hostlink/handover/tenant_totals.h"

#include <algorithm>

namespace warpline {

void TenantTotals::Add(const Key& key, const TenantTotal& total) {
  MutexLock lock(&mu_);
  Entry& entry = entries_[key];
  entry.total.Add(total);
  entry.turn = ++turn_;
  if (entries_.size() <= most_) return;
  const auto rank = [](const auto& one) {
    return std::pair(one.first.tenant == kOthers, one.second.turn);
  };
  const auto oldest =
      std::min_element(entries_.begin(), entries_.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (oldest->first.tenant == kOthers) return;
  const Key others = {kOthers, oldest->first.device};
  const Entry gone = oldest->second;
  entries_.erase(oldest);
  entries_[others].total.Add(gone.total);
}

std::map<TenantTotals::Key, TenantTotal> TenantTotals::Sums() const {
  MutexLock lock(&mu_);
  std::map<Key, TenantTotal> sums;
  for (const auto& [key, entry] : entries_) sums[key] = entry.total;
  return sums;
}

}  // namespace warpline
