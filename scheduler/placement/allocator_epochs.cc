// Epochs: what tenants have beyond their shares is lent, and at the end of an epoch some of it goes
// to those who wait, the one that is furthest behind first (finish-time fairness as in Themis,
// Mahajan et al., NSDI 2020; shares that are given back as in Gandiva, Xiao et al., OSDI 2018).
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/allocator.h"
#include "scheduler/placement/fair_shares.h"
#include "scheduler/placement/move_room.h"

namespace warpline::placement {
namespace {

// How many requests get others' leases ended at the end of an epoch: each looks at all leases.
constexpr size_t kTakeBacksAtOnce = 64;
// How many of a tenant are tried that cannot be served so.
constexpr size_t kTriesOfATenant = 8;

uint64_t MilliOf(const Want& want, uint64_t bytes_per_gpu) {
  const uint64_t each =
      MilliGpus(bytes_per_gpu, want.memory_bytes, want.sm_percent, want.time_milli);
  return want.gpus * (want.memory_bytes == 0 ? std::max(each, kUnnamedMilli) : each);
}

// What was due a tenant in proportion to what it had: 1 for one who had all of it.
double BehindOf(const Standing& standing) {
  return static_cast<double>(standing.due + 1) / static_cast<double>(standing.had + 1);
}

// By how much one has had more than the other.
uint64_t Lead(uint64_t more, uint64_t less) { return more > less ? more - less : 0; }

}  // namespace

struct Allocator::EpochView {
  uint64_t bytes_per_gpu = 1;
  std::map<std::string, uint64_t> had;  // By tenant, in milli-GPUs, without leases that will end.
  std::map<std::string, uint64_t> wanted;  // With what it waits for.
  std::map<std::string, uint64_t> fair;
  // Leases that can go, in any number, without their tenants having less than is fair.
  std::set<std::string> beyond;
  // The same, but for a rest of each tenant that is less than one lease: owners of reserves do not
  // wait because what is fair is no whole number of leases.
  std::set<std::string> above;
  // Those of tenants that have had so much more than their shares before that it is another's turn.
  std::set<std::string> turns;
};

void Allocator::EndEpoch(Decision* decision) {
  if (options_.epoch <= absl::ZeroDuration() || now_ns_ < epoch_ends_ns_) return;
  const bool first = epoch_ends_ns_ == 0;
  epoch_ends_ns_ = After(options_.epoch);
  if (first) return;
  EpochView view = LookAtEpoch();
  const uint64_t amount = pool_.usable_devices() * 1000;
  lent_ = Beyond(view.had, FairShares(quotas_, view.wanted, amount, view.bytes_per_gpu,
                                      /*whole_reserves=*/true));
  view.fair = FairShares(quotas_, view.wanted, amount, view.bytes_per_gpu,
                         /*whole_reserves=*/false);
  view.beyond = Beyond(view.had, view.fair);
  view.above = Beyond(view.had, view.fair, /*round_up=*/true);
  NoteStandings(view);
  std::map<std::string, uint64_t> keeps;
  for (const auto& [tenant, had] : view.had) {
    const Standing& standing = standings_[tenant];
    keeps[tenant] = Lead(had, Lead(standing.had, standing.due));
  }
  view.turns = Beyond(view.had, keeps);
  TakeBack(&view, decision);
}

Allocator::EpochView Allocator::LookAtEpoch() const {
  EpochView view;
  uint64_t bytes = 0;
  uint64_t devices = 0;
  for (const ServerState& server : pool_.servers()) {
    if (!server.usable) continue;
    for (const DeviceState& device : server.devices) bytes += device.spec.capacity_bytes;
    devices += server.devices.size();
  }
  view.bytes_per_gpu = std::max<uint64_t>(devices == 0 ? 1 : bytes / devices, 1);
  for (const auto& [id, lease] : pool_.allocations()) {
    if (notices_.count(id) != 0 || IsMoveRoom(id)) continue;
    view.had[lease.tenant] += lease.milli_gpus;
    view.wanted[lease.tenant] += lease.milli_gpus;
  }
  for (const auto& [number, entry] : line_.entries()) {
    if (!entry->complete() || entry->placed() || !MayHave(*entry)) continue;
    view.wanted[entry->ask.tenant()] += entry->members * MilliOf(entry->want, view.bytes_per_gpu);
  }
  return view;
}

std::set<std::string> Allocator::Beyond(const std::map<std::string, uint64_t>& had,
                                        const std::map<std::string, uint64_t>& shares,
                                        bool round_up) {
  std::map<std::string, std::vector<const Allocation*>> by_tenant;
  for (const auto& [id, lease] : pool_.allocations()) {
    // What is placed but not picked up is nobody's yet, and who has notice goes anyway.
    if (id[0] != '#' && notices_.count(id) == 0) by_tenant[lease.tenant].push_back(&lease);
  }
  std::set<std::string> beyond;
  for (auto& [tenant, leases] : by_tenant) {
    const auto share = shares.find(tenant);
    uint64_t left = had.at(tenant);
    const uint64_t keeps = share == shares.end() ? 0 : share->second;
    if (left <= keeps) continue;
    // The latest first: running times are long-tailed, so these lose least.
    std::sort(leases.begin(), leases.end(),
              [](const Allocation* a, const Allocation* b) { return a->number > b->number; });
    for (const Allocation* const lease : leases) {
      const Usage usage{lease->memory_bytes * lease->devices.size(), 1, lease->sessions,
                        lease->milli_gpus};
      if (left <= keeps || (!round_up && left < keeps + usage.milli_gpus)) continue;
      if (quotas_.NeededForReserve(tenant, usage.bytes)) continue;
      // For what is reserved above it, those before it count as gone.
      quotas_.Discharge(tenant, usage);
      left -= usage.milli_gpus;
      beyond.insert(lease->id);
    }
  }
  for (const std::string& id : beyond) {
    const Allocation& lease = *pool_.Find(id);
    quotas_.Charge(lease.tenant, {lease.memory_bytes * lease.devices.size(), 1, lease.sessions,
                                  lease.milli_gpus});
  }
  return beyond;
}

void Allocator::NoteStandings(const EpochView& view) {
  for (auto standing = standings_.begin(); standing != standings_.end();) {
    // Half of it is forgotten in five epochs.
    standing->second.due -= standing->second.due / 8;
    standing->second.had -= standing->second.had / 8;
    const bool gone = view.wanted.count(standing->first) == 0 && standing->second.due < 8;
    standing = gone ? standings_.erase(standing) : std::next(standing);
  }
  for (const auto& [tenant, wanted] : view.wanted) {
    const auto fair = view.fair.find(tenant);
    const auto had = view.had.find(tenant);
    const uint64_t due = fair == view.fair.end() ? 0 : fair->second;
    Standing& standing = standings_[tenant];
    standing.due += due;
    standing.had += had == view.had.end() ? 0 : had->second;
  }
}

void Allocator::TakeBack(EpochView* view, Decision* decision) {
  if (view->above.empty() && view->turns.empty()) return;
  std::set<uint64_t> served;
  for (const auto& [lease, notice] : notices_) served.insert(notice.waiting());
  // What leases end for counts as if its tenant had it.
  for (const uint64_t number : served) {
    const Entry* const entry = line_.Find(number);
    if (entry == nullptr || entry->placed()) continue;
    view->had[entry->ask.tenant()] += entry->members * MilliOf(entry->want, view->bytes_per_gpu);
  }
  // Those who can count on it, then those who are furthest behind, then those who came first.
  std::vector<std::tuple<bool, double, uint64_t>> hungry;
  for (const auto& [number, entry] : line_.entries()) {
    if (!entry->complete() || entry->placed() || served.count(number) != 0) continue;
    const std::string& tenant = entry->ask.tenant();
    hungry.emplace_back(!WithinReserve(*entry), -BehindOf(standings_[tenant]), number);
  }
  std::sort(hungry.begin(), hungry.end());
  // What is set aside for the patient is in nobody's way who can count on a device; they choose
  // again the next time.
  const bool owners = !hungry.empty() && !std::get<0>(hungry.front());
  for (const uint64_t number : std::vector<uint64_t>(reserved_.begin(), reserved_.end())) {
    Entry* const entry = line_.Find(number);
    if (owners && entry != nullptr && served.count(number) == 0) Unreserve(entry);
  }
  size_t tried = 0;
  std::map<std::string, size_t> failed;  // By tenant.
  std::map<std::string, Usage> taken;    // By tenant.
  for (const auto& [burst, behind, number] : hungry) {
    if (tried >= kTakeBacksAtOnce) break;
    Entry* const entry = line_.Find(number);
    const std::string& tenant = entry->ask.tenant();
    const uint64_t milli = entry->members * MilliOf(entry->want, view->bytes_per_gpu);
    // Who would have more than is fair by it waits for what others leave, unless it has nothing,
    // and so little was due it for so long that its turn has come.
    const Standing& standing = standings_[tenant];
    const bool turn = view->had[tenant] == 0 && Lead(standing.due, standing.had) >= milli;
    if (view->had[tenant] + milli > view->fair[tenant] && !turn) continue;
    const Usage usage = LeastUsage(entry->want, entry->ask.sessions(), entry->members);
    quotas_.Charge(tenant, taken[tenant]);
    const bool may = MayHave(*entry);
    quotas_.Discharge(tenant, taken[tenant]);
    if (!may || failed[tenant] >= kTriesOfATenant) continue;
    ++tried;
    if (!TakeBackFor(entry, *view, burst, turn, decision)) {
      ++failed[tenant];
      continue;
    }
    view->had[tenant] += milli;
    taken[tenant].bytes += usage.bytes;
    taken[tenant].leases += usage.leases;
    taken[tenant].sessions += usage.sessions;
  }
}

bool Allocator::TakeBackFor(Entry* entry, const EpochView& view, bool burst, bool turn,
                            Decision* decision) {
  const int64_t epoch = absl::ToInt64Nanoseconds(options_.epoch);
  const auto rank_of = [&](const Allocation& lease) {
    // Who gives way has had an epoch at least, unless it had what is reserved for another.
    const bool beyond = view.beyond.count(lease.id) != 0;
    const bool can_go = beyond || (!burst && view.above.count(lease.id) != 0) ||
                        (turn && view.turns.count(lease.id) != 0);
    const bool stays =
        !can_go || notices_.count(lease.id) != 0 || (burst && now_ns_ - lease.since_ns < epoch);
    if (stays) return Rank{true, ~0u};
    // Of the tenant that has most beyond its share first.
    const auto fair = view.fair.find(lease.tenant);
    const double share = fair == view.fair.end() ? 0 : static_cast<double>(fair->second);
    const double ahead = static_cast<double>(view.had.at(lease.tenant)) / (share + 1);
    const uint32_t first = beyond ? ~0u >> 1 : ~0u;
    return Rank{false, first - static_cast<uint32_t>(std::min(ahead * 1000, 2e9))};
  };
  const Why why = {
      warpline_placement::EPOCH,
      absl::StrCat("the epoch ends, and tenant ", entry->ask.tenant(),
                   burst ? " has less than its share" : " needs its device and has reserved it")};
  return PreemptFor(
      entry, Rank{true, 0}, rank_of, [](const std::vector<std::string>&) { return true; }, why,
      decision);
}

}  // namespace warpline::placement
