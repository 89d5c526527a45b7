// What fits where, what is set aside, and which leases have to go.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {
namespace {

// How many requests get others' leases ended at a time: each looks at all leases.
constexpr size_t kEvictionsAtOnce = 8;

using Verdict = WaitingLine::Verdict;

uint64_t MilliGpus(const DeviceState& device, uint64_t bytes, uint32_t sm_percent) {
  const uint64_t memory = bytes / (device.spec.capacity_bytes / 1000 + 1);
  return std::clamp<uint64_t>(std::max<uint64_t>(memory, sm_percent * 10), 1, 1000);
}

}  // namespace

Usage Allocator::UsageOf(const Site& site, const Want& want, uint32_t sessions) const {
  Usage usage{site.memory_bytes * site.devices.size(), 1, sessions, 0};
  for (const uint32_t i : site.devices) {
    usage.milli_gpus += MilliGpus(pool_.at({site.server, i}), site.memory_bytes, want.sm_percent);
  }
  return usage;
}

Usage Allocator::LeastUsage(const Want& want, uint32_t sessions, uint32_t members) const {
  const uint64_t bytes =
      std::max(want.memory_bytes - want.memory_bytes % kMemoryUnit, kMemoryUnit) * want.gpus;
  return {bytes * members, members, uint64_t{sessions} * members, 0};
}

std::optional<Site> Allocator::FindRoom(const Want& want, int64_t lasts_ns) const {
  auto site = FindSite(pool_, want, options_.order);
  if (site.has_value() || lasts_ns == 0 || reserved_.empty()) return site;
  // What surely ends in time may use what is set aside.
  std::map<uint64_t, int64_t> until;
  for (const uint64_t number : reserved_) {
    const auto entry = line_.entries().find(number);
    if (entry != line_.entries().end() && entry->second->reserved_until_ns != kNever) {
      until[number] = entry->second->reserved_until_ns;
    }
  }
  if (until.empty()) return std::nullopt;
  return FindSiteWhere(pool_, want, options_.order, [&](const DeviceState& device) {
    const auto end = until.find(device.held_for);
    return device.held_for == 0 || (end != until.end() && now_ns_ + lasts_ns <= end->second);
  });
}

absl::StatusOr<Site> Allocator::Take(const std::string& lease, const Ask& ask, const Want& want,
                                     Site site) {
  const uint64_t count = site.devices.size();
  if (want.memory_bytes == 0) {
    const uint64_t left = quotas_.BytesLeft(ask.tenant()) / count;
    site.memory_bytes = std::min(site.memory_bytes, left - left % kMemoryUnit);
  }
  const Usage usage = UsageOf(site, want, ask.sessions());
  if (auto status = quotas_.Check(ask.tenant(), usage); !status.ok()) return status;
  Allocation allocation;
  allocation.id = lease;
  allocation.tenant = ask.tenant();
  allocation.server = pool_.servers()[site.server].name;
  for (const uint32_t i : site.devices) {
    allocation.devices.push_back(pool_.at({site.server, i}).spec.uuid);
  }
  allocation.memory_bytes = site.memory_bytes;
  allocation.sm_percent = want.sm_percent;
  allocation.weight = want.weight;
  allocation.priority = ask.priority();
  allocation.sessions = ask.sessions();
  if (ask.lasts_ns() != 0) allocation.ends_ns = now_ns_ + ask.lasts_ns();
  allocation.number = next_lease_++;
  allocation.milli_gpus = usage.milli_gpus;
  quotas_.Charge(ask.tenant(), usage);
  pool_.Add(std::move(allocation));
  return site;
}

void Allocator::Give(const std::string& lease) {
  const Allocation* const allocation = pool_.Find(lease);
  if (allocation == nullptr) return;
  quotas_.Discharge(allocation->tenant, {allocation->memory_bytes * allocation->devices.size(), 1,
                                         allocation->sessions, allocation->milli_gpus});
  pool_.Remove(lease);
}

std::vector<Site> Allocator::FindAll(const Entry& entry) {
  if (entry.members == 1) {
    auto site = FindSite(pool_, entry.want, options_.order);
    if (!site.has_value()) return {};
    return {*std::move(site)};
  }
  std::vector<Site> sites;
  for (uint32_t i = 0; i < entry.members; ++i) {
    auto site = FindSite(pool_, entry.want, options_.order);
    if (!site.has_value()) break;
    Allocation trial;
    trial.id = absl::StrCat("#try.", i);
    trial.server = pool_.servers()[site->server].name;
    for (const uint32_t at : site->devices) {
      trial.devices.push_back(pool_.at({site->server, at}).spec.uuid);
    }
    trial.memory_bytes = site->memory_bytes;
    trial.sm_percent = entry.want.sm_percent;
    trial.weight = entry.want.weight;
    pool_.Add(std::move(trial));
    sites.push_back(*std::move(site));
  }
  for (size_t i = 0; i < sites.size(); ++i) pool_.Undo(absl::StrCat("#try.", i));
  if (sites.size() < entry.members) sites.clear();
  return sites;
}

bool Allocator::MayHave(const Entry& entry) const {
  return quotas_
      .Check(entry.ask.tenant(), LeastUsage(entry.want, entry.ask.sessions(), entry.members))
      .ok();
}

bool Allocator::PlaceEntry(Entry* entry, std::vector<Site> sites, Decision* decision) {
  Unreserve(entry);
  for (size_t i = 0; i < sites.size(); ++i) {
    auto taken = Take(absl::StrCat("#", entry->number, ".", i), entry->ask, entry->want, sites[i]);
    if (!taken.ok()) {
      for (size_t j = 0; j < i; ++j) Give(absl::StrCat("#", entry->number, ".", j));
      return false;
    }
    sites[i] = *std::move(taken);
  }
  for (const Site& site : sites) entry->places.push_back(PlaceOf(site));
  entry->pick_up_ns = After(options_.silence);
  placed_.insert(entry->number);
  line_.Update(entry);
  Cancel(entry->number, "", "who needed its devices got others", decision);
  for (const auto& member : entry->asking) decision->add_placed(member.ticket());
  return true;
}

void Allocator::Pass(Decision* decision) {
  // What is set aside first, so that nothing else is placed where it was waited for.
  for (const uint64_t number : std::vector<uint64_t>(reserved_.begin(), reserved_.end())) {
    Entry* const entry = line_.Find(number);
    if (entry != nullptr && !ReservationStands(*entry)) Unreserve(entry);
    if (entry == nullptr || !ReservationFits(*entry) || !MayHave(*entry)) continue;
    std::vector<Site> sites = entry->reserved;
    (void)PlaceEntry(entry, std::move(sites), decision);
  }
  std::vector<Site> sites;
  std::set<uint64_t> failed;
  while (true) {
    Entry* const next = line_.Next(
        quotas_,
        [&](const Entry& any, WaitingLine::Shape* shape) {
          if (shape->unfit_at == pool_.growth()) return false;
          if (!FindAll(any).empty()) return true;
          shape->unfit_at = pool_.growth();
          return false;
        },
        [&](const Entry& entry) {
          if (!MayHave(entry)) return Verdict::kNone;
          return failed.count(entry.number) == 0 ? Verdict::kYes : Verdict::kAnother;
        });
    if (next == nullptr) return;
    if (!PlaceEntry(next, FindAll(*next), decision)) failed.insert(next->number);
  }
}

// --- What is set aside.

void Allocator::Reserve(Entry* entry, std::vector<Site> sites, int64_t until_ns) {
  for (const Site& site : sites) {
    for (const uint32_t i : site.devices) pool_.Hold({site.server, i}, entry->number);
  }
  entry->reserved = std::move(sites);
  entry->reserved_until_ns = until_ns;
  reserved_.insert(entry->number);
}

void Allocator::Unreserve(Entry* entry) {
  // Devices may be elsewhere now than where they were when they were set aside.
  const std::vector<DeviceAt> held(pool_.held().begin(), pool_.held().end());
  for (const DeviceAt& at : held) {
    if (pool_.at(at).held_for == entry->number) pool_.Hold(at, 0);
  }
  entry->reserved.clear();
  entry->reserved_until_ns = kNever;
  reserved_.erase(entry->number);
}

bool Allocator::ReservationStands(const Entry& entry) const {
  for (const Site& site : entry.reserved) {
    if (site.server >= pool_.servers().size()) return false;
    const ServerState& server = pool_.servers()[site.server];
    if (!server.usable) return false;
    for (const uint32_t i : site.devices) {
      if (i >= server.devices.size() || server.devices[i].held_for != entry.number) return false;
    }
  }
  return true;
}

bool Allocator::ReservationFits(const Entry& entry) const {
  if (entry.reserved.empty() || !entry.complete() || !ReservationStands(entry)) return false;
  for (const Site& site : entry.reserved) {
    for (const uint32_t i : site.devices) {
      if (!Fits(pool_.at({site.server, i}), entry.want)) return false;
    }
  }
  return true;
}

// On each server the devices that have the fewest leases; of the servers, those where the fewest
// devices have to become free, and then the fewest leases have to end.
std::vector<Site> Allocator::ChooseReservation(const Entry& entry, int64_t* until_ns) const {
  struct Choice {
    size_t blocked = 0;
    size_t leases = 0;
    uint32_t server = 0;
    std::vector<uint32_t> devices;
  };
  const Want& want = entry.want;
  std::vector<Choice> choices;
  for (uint32_t number = 0; number < pool_.servers().size(); ++number) {
    const ServerState& server = pool_.servers()[number];
    if (!server.usable) continue;
    std::vector<uint32_t> could;
    for (uint32_t i = 0; i < server.devices.size(); ++i) {
      const DeviceState& device = server.devices[i];
      const bool named = want.named.empty() ||
                         std::find(want.named.begin(), want.named.end(), device.spec.uuid) !=
                             want.named.end();
      if (named && device.held_for == 0 && CouldFit(device, want)) could.push_back(i);
    }
    std::stable_sort(could.begin(), could.end(), [&](uint32_t a, uint32_t b) {
      const DeviceState& x = server.devices[a];
      const DeviceState& y = server.devices[b];
      return std::pair(!Fits(x, want), x.leases) < std::pair(!Fits(y, want), y.leases);
    });
    // A server may do for several members.
    for (size_t first = 0; first + want.gpus <= could.size(); first += want.gpus) {
      Choice choice;
      choice.server = number;
      for (size_t i = first; i < first + want.gpus; ++i) {
        const DeviceState& device = server.devices[could[i]];
        choice.devices.push_back(could[i]);
        if (Fits(device, want)) continue;
        ++choice.blocked;
        choice.leases += device.leases;
      }
      choices.push_back(std::move(choice));
      if (entry.members == 1) break;
    }
  }
  if (choices.size() < entry.members) return {};
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.blocked, a.leases) < std::pair(b.blocked, b.leases);
  });
  choices.resize(entry.members);
  std::vector<Site> sites;
  *until_ns = now_ns_;
  for (Choice& choice : choices) {
    for (const Allocation* const lease : pool_.servers()[choice.server].allocations) {
      const bool there = std::any_of(choice.devices.begin(), choice.devices.end(), [&](uint32_t i) {
        const DeviceState& device = pool_.at({choice.server, i});
        return !Fits(device, want) && std::find(lease->devices.begin(), lease->devices.end(),
                                                device.spec.uuid) != lease->devices.end();
      });
      if (there) *until_ns = std::max(*until_ns, lease->ends_ns);
    }
    if (want.named.empty()) std::sort(choice.devices.begin(), choice.devices.end());
    sites.push_back(SiteOf(pool_, want, choice.server, std::move(choice.devices)));
  }
  return sites;
}

void Allocator::ReserveForThePatient() {
  const int64_t patience = absl::ToInt64Nanoseconds(options_.patience);
  std::set<uint64_t> hopeless;
  while (reserved_.size() < options_.max_reservations) {
    Entry* const next = line_.Next(
        quotas_, [](const Entry&, WaitingLine::Shape*) { return true; },
        [&](const Entry& entry) {
          if (now_ns_ - entry.since_ns < patience || !MayHave(entry)) return Verdict::kNone;
          const bool open = entry.reserved.empty() && hopeless.count(entry.number) == 0;
          return open ? Verdict::kYes : Verdict::kAnother;
        });
    if (next == nullptr) return;
    int64_t until_ns = kNever;
    std::vector<Site> sites = ChooseReservation(*next, &until_ns);
    if (sites.empty()) {
      hopeless.insert(next->number);
      continue;
    }
    Reserve(next, std::move(sites), until_ns);
  }
}

// --- Leases that have to go.

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
    const Usage usage = LeastUsage(entry.want, entry.ask.sessions(), entry.members);
    return Rank{quotas_.WithinReserve(entry.ask.tenant(), usage.bytes), entry.ask.priority()};
  };
  // What leases end for counts as if its tenant had it, or each of many requests would take all that
  // the tenant can count on.
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
  while (tried.size() < kEvictionsAtOnce) {
    Entry* const next = line_.Next(
        quotas_, [](const Entry&, WaitingLine::Shape*) { return true; },
        [&](const Entry& entry) {
          if (!(*lowest < rank_of(entry)) || !MayHave(entry)) return Verdict::kNone;
          const bool open = pending.count(entry.number) == 0 && tried.count(entry.number) == 0;
          return open ? Verdict::kYes : Verdict::kAnother;
        });
    if (next == nullptr) break;
    tried.insert(next->number);
    if (PreemptFor(next, rank_of(*next), decision)) count(*next, true);
  }
  for (const uint64_t number : std::set<uint64_t>(pending)) {
    if (const Entry* const entry = line_.Find(number); entry != nullptr) count(*entry, false);
  }
}

bool Allocator::PreemptFor(Entry* entry, Rank rank, Decision* decision) {
  Unreserve(entry);
  std::vector<Site> sites;
  std::vector<std::string> victims;
  std::map<std::string, uint64_t> lost;  // By tenant.
  bool enough = true;
  for (uint32_t i = 0; i < entry->members && enough; ++i) {
    std::optional<Site> site = FindSite(pool_, entry->want, options_.order);
    if (!site.has_value()) {
      auto eviction = FindEviction(pool_, entry->want, options_.order, rank,
                                   [this](const Allocation& lease) {
                                     // What is placed but not picked up is nobody's yet, and who has
                                     // notice already goes anyway.
                                     const bool other = lease.id[0] == '#' ||
                                                        notices_.count(lease.id) != 0;
                                     return other ? Rank{true, ~0u} : RankOf(lease);
                                   });
      if (!eviction.has_value()) break;
      for (const std::string& victim : eviction->victims) {
        const Allocation& lease = *pool_.Find(victim);
        lost[lease.tenant] += lease.memory_bytes * lease.devices.size();
        const Rank left{quotas_.NeededForReserve(lease.tenant, lost[lease.tenant]),
                        lease.priority};
        enough = enough && left < rank;
        victims.push_back(victim);
      }
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
    notice.set_reason(absl::StrCat("tenant ", entry->ask.tenant(), " needs its device and ",
                                   rank.first ? "has reserved it" : "goes first"));
    Notify(std::move(notice), decision);
  }
  return true;
}

void Allocator::Notify(warpline_placement::Notice notice, Decision* decision) {
  auto& kept = notices_[notice.lease()];
  if (!kept.lease().empty() && kept.deadline_ns() <= notice.deadline_ns()) return;
  kept = notice;
  *decision->add_notices() = std::move(notice);
}

void Allocator::Cancel(uint64_t waiting, const std::string& server, const std::string& why,
                       Decision* decision) {
  for (auto notice = notices_.begin(); notice != notices_.end();) {
    const auto& one = notice->second;
    const bool its = (waiting != 0 && one.waiting() == waiting) ||
                     (!server.empty() && one.server() == server);
    if (!its) {
      ++notice;
      continue;
    }
    // One whose time had come has been told so.
    if (pool_.Find(one.lease()) != nullptr && one.deadline_ns() > now_ns_) {
      auto* const cancelled = decision->add_notices();
      *cancelled = one;
      cancelled->set_cancelled(true);
      cancelled->set_reason(why);
    }
    notice = notices_.erase(notice);
  }
}

}  // namespace warpline::placement
