// Leases that have to go: who is told, when, and why.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {
namespace {

using Verdict = WaitingLine::Verdict;

// How many requests get others' leases ended at a time: each looks at all leases.
constexpr size_t kEvictionsAtOnce = 8;
// How many of them are tried, of all tenants and of one: some can never be served so.
constexpr size_t kTriesAtOnce = 32;
constexpr size_t kTriesOfATenant = 4;

}  // namespace

Rank Allocator::RankOf(const Allocation& allocation) const {
  return {quotas_.NeededForReserve(allocation.tenant,
                                   allocation.memory_bytes * allocation.devices.size()),
          allocation.priority};
}

void Allocator::Preempt(Decision* decision) {
  if (!options_.preemption || line_.requests() == 0) return;
  std::optional<Rank> lowest;
  for (const auto& [id, allocation] : pool_.allocations()) {
    const Rank rank = RankOf(allocation);
    if (!lowest.has_value() || rank < *lowest) lowest = rank;
  }
  if (!lowest.has_value()) return;
  const auto rank_of = [&](const Entry& entry) {
    return Rank{WithinReserve(entry), entry.ask.priority()};
  };
  // What leases end for counts as if its tenant had it, or each of many requests would take all
  // that the tenant can count on.
  std::set<uint64_t> pending;
  const auto count = [&](const Entry& entry, bool add) {
    const Usage usage = LeastUsage(entry.want, entry.ask.sessions(), entry.members);
    if (add && pending.insert(entry.number).second) quotas_.Charge(entry.ask.tenant(), usage);
    if (!add && pending.erase(entry.number) != 0) quotas_.Discharge(entry.ask.tenant(), usage);
  };
  for (const auto& [lease, notice] : notices_) {
    if (const Entry* const entry = line_.Find(notice.waiting()); entry != nullptr) {
      count(*entry, true);
    }
  }
  std::set<uint64_t> tried;
  std::map<std::string, size_t> failed;  // By tenant.
  size_t served = 0;
  while (served < kEvictionsAtOnce && tried.size() < kTriesAtOnce) {
    Entry* const next = line_.Next(
        quotas_, [this](const Entry& entry) { return WithinReserve(entry); },
        [](const Entry&, WaitingLine::Shape*) { return true; },
        [&](const Entry& entry) {
          if (!(*lowest < rank_of(entry)) || !MayHave(entry)) return Verdict::kNone;
          const auto failures = failed.find(entry.ask.tenant());
          if (failures != failed.end() && failures->second >= kTriesOfATenant) {
            return Verdict::kNone;
          }
          const bool open = pending.count(entry.number) == 0 && tried.count(entry.number) == 0;
          return open ? Verdict::kYes : Verdict::kAnother;
        });
    if (next == nullptr) break;
    tried.insert(next->number);
    const Rank rank = rank_of(*next);
    const auto lower = [this](const Allocation& lease) {
      // What is placed but not picked up is nobody's yet, and who has notice already goes anyway.
      const bool other = lease.id[0] == '#' || notices_.count(lease.id) != 0;
      return other ? Rank{true, ~0u} : RankOf(lease);
    };
    const auto may_go = [&](const std::vector<std::string>& victims) {
      std::map<std::string, uint64_t> lost;  // By tenant.
      for (const std::string& victim : victims) {
        const Allocation& lease = *pool_.Find(victim);
        lost[lease.tenant] += lease.memory_bytes * lease.devices.size();
        const Rank left{quotas_.NeededForReserve(lease.tenant, lost[lease.tenant]), lease.priority};
        if (!(left < rank)) return false;
      }
      return true;
    };
    const Why why = {warpline_placement::PREEMPTION,
                     absl::StrCat("tenant ", next->ask.tenant(), " needs its device and ",
                                  rank.first ? "has reserved it" : "goes first")};
    if (PreemptFor(next, rank, lower, may_go, why, decision)) {
      count(*next, true);
      ++served;
    } else {
      ++failed[next->ask.tenant()];
    }
  }
  for (const uint64_t number : std::set<uint64_t>(pending)) {
    if (const Entry* const entry = line_.Find(number); entry != nullptr) count(*entry, false);
  }
}

bool Allocator::PreemptFor(Entry* entry, Rank rank,
                           absl::FunctionRef<Rank(const Allocation&)> rank_of,
                           absl::FunctionRef<bool(const std::vector<std::string>&)> may_go,
                           const Why& why, Decision* decision) {
  Unreserve(entry);
  std::vector<Site> sites;
  std::vector<std::string> victims;
  bool enough = true;
  for (uint32_t i = 0; i < entry->members && enough; ++i) {
    std::optional<Site> site = FindSite(pool_, entry->want, options_.order);
    if (!site.has_value()) {
      auto eviction = FindEviction(pool_, entry->want, options_.order, rank, rank_of);
      if (!eviction.has_value()) break;
      victims.insert(victims.end(), eviction->victims.begin(), eviction->victims.end());
      enough = may_go(victims);
      site = std::move(eviction->site);
    }
    for (const uint32_t at : site->devices) pool_.Hold({site->server, at}, entry->number);
    sites.push_back(*std::move(site));
  }
  const bool works = enough && sites.size() == entry->members;
  Reserve(entry, std::move(sites), After(options_.notice));
  if (!works) {
    Unreserve(entry);
    return false;
  }
  for (const std::string& victim : victims) {
    warpline_placement::Notice notice;
    notice.set_lease(victim);
    notice.set_deadline_ns(After(options_.notice));
    notice.set_waiting(entry->number);
    notice.set_reason(why.reason);
    notice.set_cause(why.cause);
    Notify(std::move(notice), decision);
  }
  return true;
}

warpline_placement::Notice Allocator::NoticeOfDrain(const std::string& lease,
                                                    const warpline_placement::Cordon& cordon) {
  warpline_placement::Notice notice;
  notice.set_lease(lease);
  notice.set_deadline_ns(cordon.drained_ns());
  notice.set_server(cordon.server());
  notice.set_cause(warpline_placement::DRAIN);
  notice.set_reason(absl::StrCat("server ", cordon.server(), " is being drained",
                                 cordon.reason().empty() ? "" : ": ", cordon.reason()));
  return notice;
}

void Allocator::Notify(warpline_placement::Notice notice, Decision* decision) {
  auto& kept = notices_[notice.lease()];
  if (!kept.lease().empty() && kept.deadline_ns() <= notice.deadline_ns()) return;
  kept = notice;
  *decision->add_notices() = std::move(notice);
}

void Allocator::Cancel(uint64_t waiting, const std::string& server, const std::string& why,
                       Decision* decision) {
  std::vector<warpline_placement::Notice> drains;
  for (auto notice = notices_.begin(); notice != notices_.end();) {
    const auto& one = notice->second;
    const bool its =
        (waiting != 0 && one.waiting() == waiting) || (!server.empty() && one.server() == server);
    if (!its) {
      ++notice;
      continue;
    }
    const Allocation* const allocation = pool_.Find(one.lease());
    // Of two notices the earlier one was kept: its server is being drained all the same.
    if (allocation != nullptr && server.empty()) {
      const auto cordon = cordons_.find(allocation->server);
      if (cordon != cordons_.end() && cordon->second.drained_ns() != 0) {
        drains.push_back(NoticeOfDrain(one.lease(), cordon->second));
        notice = notices_.erase(notice);
        continue;
      }
    }
    // One whose time had come has been told so.
    if (allocation != nullptr && one.deadline_ns() > now_ns_) {
      auto* const cancelled = decision->add_notices();
      *cancelled = one;
      cancelled->set_cancelled(true);
      cancelled->set_cause(warpline_placement::ANOTHER);
      cancelled->set_reason(why);
    }
    notice = notices_.erase(notice);
  }
  for (auto& drain : drains) Notify(std::move(drain), decision);
}

}  // namespace warpline::placement
