// What fits where, and who gets it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {
namespace {

using Verdict = WaitingLine::Verdict;

}  // namespace

Usage Allocator::UsageOf(const Site& site, const Want& want, uint32_t sessions) const {
  Usage usage{site.memory_bytes * site.devices.size(), 1, sessions, 0};
  for (const uint32_t i : site.devices) {
    usage.milli_gpus += MilliGpus(pool_.at({site.server, i}).spec.capacity_bytes, site.memory_bytes,
                                  want.sm_percent, want.time_milli);
  }
  return usage;
}

Usage Allocator::LeastUsage(const Want& want, uint32_t sessions, uint32_t members) const {
  const uint64_t bytes =
      std::max(want.memory_bytes - want.memory_bytes % kMemoryUnit, kMemoryUnit) * want.gpus;
  return {bytes * members, members, uint64_t{sessions} * members, 0};
}

Usage Allocator::ReckonedUsage(const Entry& entry) const {
  const Want& want = entry.want;
  Usage usage = LeastUsage(want, entry.ask.sessions(), entry.members);
  const auto& capacities = pool_.by_capacity();
  if (want.memory_bytes == 0 && !capacities.empty()) {
    const uint64_t part = capacities.rbegin()->first * kUnnamedMilli / 1000;
    usage.bytes = std::max(usage.bytes, part * want.gpus * entry.members);
  }
  return usage;
}

bool Allocator::WithinReserve(const Entry& entry) const {
  return quotas_.WithinReserve(entry.ask.tenant(), ReckonedUsage(entry).bytes);
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
  return FindSiteWhere(
      pool_, want, options_.order, [&](const ServerState&, const DeviceState& device) {
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
    // A lease of nothing would be one without a limit.
    if (site.memory_bytes == 0) {
      auto status = quotas_.Check(ask.tenant(), LeastUsage(want, ask.sessions(), 1));
      if (status.ok()) status = absl::ResourceExhaustedError("no capacity: no memory is left");
      return status;
    }
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
  allocation.time_milli = want.time_milli;
  allocation.weight = want.weight;
  allocation.priority = ask.priority();
  allocation.sessions = ask.sessions();
  allocation.since_ns = now_ns_;
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
  if (!MayFit(pool_, entry.want, entry.members)) return {};
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
    trial.time_milli = entry.want.time_milli;
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
        quotas_, [this](const Entry& entry) { return WithinReserve(entry); },
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

}  // namespace warpline::placement
