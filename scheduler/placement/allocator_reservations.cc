// What is set aside for requests that have waited for long.
#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {

using Verdict = WaitingLine::Verdict;

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

int64_t Allocator::ExpectedRest(const Allocation& lease) const {
  const int64_t age = std::max<int64_t>(now_ns_ - lease.since_ns, 0);
  return lease.ends_ns == kNever ? age : std::clamp<int64_t>(lease.ends_ns - now_ns_, 0, age);
}

// When each device of the server may be expected to have room, from now on in nanoseconds, and when
// it surely has; both by position.
void Allocator::ExpectRoom(const ServerState& server, const Want& want,
                           std::vector<int64_t>* expected, std::vector<int64_t>* sure_ns) const {
  expected->assign(server.devices.size(), 0);
  sure_ns->assign(server.devices.size(), now_ns_);
  for (const Allocation* const lease : server.allocations) {
    for (const std::string& uuid : lease->devices) {
      for (size_t i = 0; i < server.devices.size(); ++i) {
        if (server.devices[i].spec.uuid != uuid || Fits(server.devices[i], want)) continue;
        (*expected)[i] = std::max((*expected)[i], ExpectedRest(*lease) + 1);
        (*sure_ns)[i] = std::max((*sure_ns)[i], lease->ends_ns);
      }
    }
  }
}

// On each server the devices that are expected to have room first, and of the servers likewise; of
// those that are about the same, where the fewest devices have to become free.
std::vector<Site> Allocator::ChooseReservation(const Entry& entry, int64_t* until_ns) const {
  struct Choice {
    int64_t expected = 0;  // Of the last of them, as a power of two.
    size_t blocked = 0;
    int64_t sure_ns = 0;
    uint32_t server = 0;
    std::vector<uint32_t> devices;
  };
  const Want& want = entry.want;
  std::vector<Choice> choices;
  std::vector<int64_t> expected;
  std::vector<int64_t> sure_ns;
  for (uint32_t number = 0; number < pool_.servers().size(); ++number) {
    const ServerState& server = pool_.servers()[number];
    if (!server.usable) continue;
    std::vector<uint32_t> could;
    for (uint32_t i = 0; i < server.devices.size(); ++i) {
      const DeviceState& device = server.devices[i];
      const bool named = want.named.empty() || std::find(want.named.begin(), want.named.end(),
                                                         device.spec.uuid) != want.named.end();
      if (named && device.held_for == 0 && CouldFit(device, want)) could.push_back(i);
    }
    if (could.size() < want.gpus) continue;
    ExpectRoom(server, want, &expected, &sure_ns);
    std::stable_sort(could.begin(), could.end(),
                     [&](uint32_t a, uint32_t b) { return expected[a] < expected[b]; });
    // A server may do for several members.
    for (size_t first = 0; first + want.gpus <= could.size(); first += want.gpus) {
      Choice choice;
      choice.server = number;
      for (size_t i = first; i < first + want.gpus; ++i) {
        const uint32_t at = could[i];
        choice.devices.push_back(at);
        choice.blocked += Fits(server.devices[at], want) ? 0 : 1;
        choice.sure_ns = std::max(choice.sure_ns, sure_ns[at]);
        choice.expected = std::max(choice.expected, expected[at]);
      }
      choice.expected = absl::bit_width(static_cast<uint64_t>(choice.expected));
      choices.push_back(std::move(choice));
      if (entry.members == 1) break;
    }
  }
  if (choices.size() < entry.members) return {};
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.expected, a.blocked) < std::pair(b.expected, b.blocked);
  });
  choices.resize(entry.members);
  std::vector<Site> sites;
  *until_ns = now_ns_;
  for (Choice& choice : choices) {
    *until_ns = std::max(*until_ns, choice.sure_ns);
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
        quotas_, [this](const Entry& entry) { return WithinReserve(entry); },
        [](const Entry&, WaitingLine::Shape*) { return true; },
        [&](const Entry& entry) {
          if (now_ns_ - entry.since_ns < patience) return Verdict::kNone;
          if (!quotas_.Check(entry.ask.tenant(), ReckonedUsage(entry)).ok()) return Verdict::kNone;
          if (!entry.reserved.empty()) return Verdict::kAnother;
          // Others of its shape would find as little.
          return hopeless.count(entry.number) == 0 ? Verdict::kYes : Verdict::kNone;
        });
    if (next == nullptr) return;
    const uint64_t most = pool_.usable_devices() * options_.max_reserved_percent / 100;
    const uint64_t devices = uint64_t{next->want.gpus} * next->members;
    // Who is next waits for its devices, and nobody gets past it.
    if (!pool_.held().empty() && pool_.held().size() + devices > most) return;
    int64_t until_ns = kNever;
    std::vector<Site> sites = ChooseReservation(*next, &until_ns);
    if (sites.empty()) {
      hopeless.insert(next->number);
      continue;
    }
    Reserve(next, std::move(sites), until_ns);
  }
}

}  // namespace warpline::placement
