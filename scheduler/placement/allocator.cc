// Events, and requests.
#include "scheduler/placement/allocator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::placement {
namespace {

using warpline_placement::Member;

void Refuse(const absl::Status& status, Decision* decision) {
  decision->set_outcome(warpline_placement::REFUSED);
  decision->set_code(static_cast<uint32_t>(status.code()));
  decision->set_message(std::string(status.message()));
}

// Whether both ask for the same, whoever of a gang they are for.
bool SameAsk(const Ask& a, const Ask& b) {
  Ask same = a;
  same.set_ticket(b.ticket());
  same.set_lease(b.lease());
  same.set_lasts_ns(b.lasts_ns());
  return same.SerializeAsString() == b.SerializeAsString();
}

// Who is far from its turn need not ask often.
absl::Duration PauseAt(uint32_t position) {
  return std::min(absl::Seconds(5), absl::Milliseconds(250) * std::max(position, 2u));
}

}  // namespace

Want WantOf(const Ask& ask) {
  Want want;
  want.memory_bytes = ask.shape().memory_bytes();
  want.sm_percent = ask.shape().sm_percent();
  want.time_milli = ask.shape().time_milli();
  want.weight = std::max(ask.shape().weight(), 1u);
  want.named.assign(ask.named().begin(), ask.named().end());
  want.gpus =
      want.named.empty() ? std::max(ask.gpus(), 1u) : static_cast<uint32_t>(want.named.size());
  return want;
}

uint32_t MembersOf(const Ask& ask) { return ask.gang().empty() ? 1 : std::max(ask.members(), 1u); }

Decision Allocator::Apply(const Event& event) {
  Decision decision;
  now_ns_ = std::max(now_ns_, event.at_ns());
  switch (event.what_case()) {
    case Event::kPutServer:
      PutServer(event.put_server());
      break;
    case Event::kRemoveServer:
      up_.erase(event.remove_server());
      cordons_.erase(event.remove_server());
      Cancel(0, event.remove_server(), "its server has gone", &decision);
      EndMovesOf(event.remove_server(), /*from=*/true,
                 absl::StrCat("server ", event.remove_server(), " has left the pool"), &decision);
      pool_.RemoveServer(event.remove_server());
      break;
    case Event::kCordon:
      SetCordon(event.cordon(), &decision);
      break;
    case Event::kPutTenant: {
      const auto& tenant = event.put_tenant();
      const absl::Status put = quotas_.Put({.name = tenant.name(),
                                            .parent = tenant.parent(),
                                            .memory_bytes = tenant.memory_bytes(),
                                            .reserved_bytes = tenant.reserved_bytes(),
                                            .max_leases = tenant.max_leases(),
                                            .max_sessions = tenant.max_sessions(),
                                            .weight = std::max(tenant.weight(), 1u)});
      if (!put.ok()) Refuse(put, &decision);
      break;
    }
    case Event::kRemoveTenant:
      quotas_.Remove(event.remove_tenant());
      break;
    case Event::kRestore:
      Restore(event.restore());
      return decision;
    case Event::kRelease:
      Release(event.release(), &decision);
      break;
    case Event::kMove:
      BeginMove(event.move(), &decision);
      return decision;
    case Event::kCommitMove:
      CommitMove(event.commit_move(), &decision);
      break;
    case Event::kEndMove:
      GiveMoveRoom(event.end_move().lease());
      break;
    case Event::kAsk:
      AnswerAsk(event.ask(), &decision);
      return decision;
    case Event::kWithdraw:
      Withdraw(event.withdraw().tenant(), event.withdraw().ticket(), &decision);
      break;
    case Event::kAdvance:
      DropTheSilent(&decision);
      Pass(&decision);
      ReserveForThePatient();
      Preempt(&decision);
      EndEpoch(&decision);
      TellTheDue(&decision);
      break;
    case Event::kWaiting:
      RestoreWaiting(event.waiting());
      return decision;
    case Event::kMoving:
      RestoreMove(event.moving());
      return decision;
    case Event::kNotice:
      notices_[event.notice().lease()] = event.notice();
      return decision;
    case Event::kEpoch:
      epoch_ends_ns_ = event.epoch().ends_ns();
      lent_.insert(event.epoch().lent().begin(), event.epoch().lent().end());
      for (const auto& standing : event.epoch().standings()) {
        standings_[standing.tenant()] = {standing.due(), standing.had()};
      }
      return decision;
    case Event::kCounters:
      next_lease_ = event.counters().next_lease();
      next_waiting_ = event.counters().next_waiting();
      return decision;
    case Event::WHAT_NOT_SET:
      return decision;
  }
  Pass(&decision);
  return decision;
}

void Allocator::PutServer(const warpline_placement::Server& server) {
  std::vector<DeviceSpec> devices;
  for (const auto& device : server.devices()) {
    devices.push_back({device.uuid(), device.capacity_bytes(), device.nvlink_group(),
                       device.numa_group(), device.model()});
  }
  if (server.up()) {
    up_.insert(server.name());
  } else {
    up_.erase(server.name());
  }
  const bool usable = server.up() && cordons_.count(server.name()) == 0;
  const ServerState* const known = pool_.FindServer(server.name());
  const bool same = known != nullptr &&
                    std::equal(known->devices.begin(), known->devices.end(), devices.begin(),
                               devices.end(), [](const DeviceState& state, const DeviceSpec& spec) {
                                 return state.spec == spec;
                               });
  if (same) {
    pool_.SetUsable(server.name(), usable);
  } else {
    pool_.PutServer(server.name(), devices, usable,
                    server.number() == 0 ? kAnyNumber : server.number() - 1);
  }
}

void Allocator::SetCordon(const warpline_placement::Cordon& cordon, Decision* decision) {
  const std::string& server = cordon.server();
  Cancel(0, server, "its server is not being drained any more", decision);
  if (!cordon.cordoned()) {
    cordons_.erase(server);
    pool_.SetUsable(server, up_.count(server) != 0);
    return;
  }
  cordons_[server] = cordon;
  pool_.SetUsable(server, false);
  EndMovesOf(server, /*from=*/false, absl::StrCat("server ", server, " was cordoned meanwhile"),
             decision);
  if (cordon.drained_ns() == 0) return;
  const ServerState* const state = pool_.FindServer(server);
  if (state == nullptr) return;
  // By their ids, so that the order is the same each time.
  std::set<std::string> leases;
  for (const Allocation* const allocation : state->allocations) {
    // A request that is placed there is never picked up: see PickUp(). Moves to it have ended.
    if (allocation->id[0] != '#') leases.insert(allocation->id);
  }
  for (const std::string& lease : leases) Notify(NoticeOfDrain(lease, cordon), decision);
}

void Allocator::Restore(const warpline_placement::Lease& lease) {
  if (pool_.Find(lease.id()) != nullptr) return;
  Allocation allocation;
  allocation.id = lease.id();
  allocation.tenant = lease.tenant();
  allocation.server = lease.server();
  allocation.devices.assign(lease.devices().begin(), lease.devices().end());
  allocation.memory_bytes = lease.shape().memory_bytes();
  allocation.sm_percent = lease.shape().sm_percent();
  allocation.time_milli = lease.shape().time_milli();
  allocation.weight = std::max(lease.shape().weight(), 1u);
  allocation.priority = lease.priority();
  allocation.sessions = lease.sessions();
  allocation.since_ns = lease.since_ns() != 0 ? lease.since_ns() : now_ns_;
  if (lease.ends_ns() != 0) allocation.ends_ns = lease.ends_ns();
  allocation.number = lease.number() != 0 ? lease.number() : next_lease_++;
  allocation.milli_gpus = lease.milli_gpus();
  if (allocation.milli_gpus == 0) {
    const ServerState* const server = pool_.FindServer(lease.server());
    for (const std::string& uuid : allocation.devices) {
      uint64_t part = 1000;
      if (server != nullptr) {
        for (const DeviceState& device : server->devices) {
          if (device.spec.uuid != uuid) continue;
          part = MilliGpus(device.spec.capacity_bytes, allocation.memory_bytes,
                           allocation.sm_percent, allocation.time_milli);
        }
      }
      allocation.milli_gpus += part;
    }
  }
  quotas_.Charge(allocation.tenant, {allocation.memory_bytes * allocation.devices.size(), 1,
                                     allocation.sessions, allocation.milli_gpus});
  pool_.Add(std::move(allocation));
}

void Allocator::Release(const std::string& lease, Decision* decision) {
  if (moves_.count(lease) != 0) {
    GiveMoveRoom(lease);
    auto* const ended = decision->add_ended_moves();
    ended->set_lease(lease);
    ended->set_why("the lease has ended");
  }
  notices_.erase(lease);
  lent_.erase(lease);
  Give(lease);
}

// --- Requests.

absl::Status Allocator::WhyNotNow(const Want& want) const {
  const bool all_cordoned =
      pool_.usable_servers() == 0 && std::any_of(up_.begin(), up_.end(), [&](const auto& server) {
        return cordons_.count(server) != 0;
      });
  if (all_cordoned) {
    return absl::ResourceExhaustedError("no capacity: every server that is up is cordoned");
  }
  return WhyNot(pool_, want);
}

void Allocator::AnswerAsk(const Ask& ask, Decision* decision) {
  if (!ask.ticket().empty()) {
    if (Entry* const entry = line_.FindTicket(ask.tenant(), ask.ticket()); entry != nullptr) {
      if (!SameAsk(entry->ask, ask)) {
        // What was placed, and counted, is what was asked for first.
        return Refuse(absl::InvalidArgumentError(
                          "what waits under this ticket was asked for with another size, slice or "
                          "terms, or these were changed meanwhile: ask anew"),
                      decision);
      }
      AnswerWaiting(entry, ask, decision);
      return;
    }
  }
  const Want want = WantOf(ask);
  const uint32_t members = MembersOf(ask);
  const absl::Status within = quotas_.Check(ask.tenant(), LeastUsage(want, ask.sessions(), 1));
  absl::Status why = within;
  if (within.ok() && ask.gang().empty()) {
    if (auto room = FindRoom(want, ask.lasts_ns()); room.has_value()) {
      const auto site = Take(ask.lease(), ask, want, *std::move(room));
      if (site.ok()) {
        decision->set_outcome(warpline_placement::GRANTED);
        *decision->mutable_place() = PlaceOf(*site);
        return;
      }
      why = site.status();
    } else {
      why = WhyNotNow(want);
    }
  }
  if (ask.ticket().empty()) {
    if (ask.gang().empty() && !why.ok()) {
      Refuse(why, decision);
      decision->set_no_server(absl::IsUnavailable(why));
    } else {
      Refuse(absl::InvalidArgumentError("a gang waits for its members: ask with a ticket"),
             decision);
    }
    return;
  }
  // What will never be is not waited for.
  if (absl::IsNotFound(why) && pool_.usable_servers() > 0 && !CouldEverFit(pool_, want)) {
    Refuse(why, decision);
    return;
  }
  if (pool_.usable_servers() > 0 && !CouldEverFit(pool_, want)) {
    Refuse(absl::ResourceExhaustedError(
               absl::StrCat("no server could ever have it, even without any lease: ",
                            WhyNot(pool_, want).message())),
           decision);
    return;
  }
  if (!quotas_.CouldEver(ask.tenant(), LeastUsage(want, ask.sessions(), members))) {
    Refuse(quotas_.Check(ask.tenant(), LeastUsage(want, ask.sessions(), members)), decision);
    return;
  }
  auto entry = Enqueue(ask, want);
  if (!entry.ok()) {
    Refuse(entry.status(), decision);
    return;
  }
  if ((*entry)->complete() && members > 1) Pass(decision);
  AnswerWaiting(*entry, ask, decision);
}

absl::StatusOr<Entry*> Allocator::Enqueue(const Ask& ask, const Want& want) {
  if (line_.requests() >= options_.max_waiting) {
    return absl::ResourceExhaustedError("as many requests wait as the scheduler keeps");
  }
  if (line_.RequestsOf(ask.tenant()) >= options_.max_waiting_of_tenant) {
    return absl::ResourceExhaustedError(absl::StrCat("tenant ", ask.tenant(), " waits for ",
                                                     options_.max_waiting_of_tenant,
                                                     " requests already, which is its limit"));
  }
  Member member;
  member.set_ticket(ask.ticket());
  member.set_asked_ns(now_ns_);
  if (!ask.gang().empty()) {
    if (Entry* const gang = line_.FindGang(ask.tenant(), ask.gang()); gang != nullptr) {
      if (gang->complete()) {
        return absl::AlreadyExistsError(absl::StrCat("the gang ", ask.gang(), " has its ",
                                                     gang->members, " members: name another one"));
      }
      if (!SameAsk(gang->ask, ask)) {
        return absl::InvalidArgumentError(
            absl::StrCat("another member of the gang ", ask.gang(), " asked for something else"));
      }
      gang->asking.push_back(std::move(member));
      line_.Update(gang);
      return gang;
    }
  }
  Entry entry;
  entry.number = next_waiting_++;
  entry.ask = ask;
  entry.want = want;
  entry.members = MembersOf(ask);
  entry.since_ns = now_ns_;
  entry.asking.push_back(std::move(member));
  return line_.Add(std::move(entry));
}

void Allocator::AnswerWaiting(Entry* entry, const Ask& ask, Decision* decision) {
  size_t member = 0;
  while (entry->asking[member].ticket() != ask.ticket()) ++member;
  entry->asking[member].set_asked_ns(now_ns_);
  if (entry->placed()) {
    PickUp(entry, member, ask, decision);
    return;
  }
  decision->set_outcome(warpline_placement::WAITING);
  decision->set_missing(entry->members - static_cast<uint32_t>(entry->asking.size()));
  decision->set_position(line_.PositionOf(*entry, quotas_));
  decision->set_waiting(line_.requests());
  decision->set_ask_again_ns(absl::ToInt64Nanoseconds(PauseAt(decision->position())));
  const Usage usage = LeastUsage(entry->want, entry->ask.sessions(), entry->members);
  absl::Status why = quotas_.Check(entry->ask.tenant(), usage);
  if (why.ok()) why = WhyNotNow(entry->want);
  decision->set_message(decision->missing() != 0
                            ? absl::StrCat("of its gang of ", entry->members, ", ",
                                           decision->missing(), " have not asked yet")
                            : std::string(why.message()));
}

void Allocator::PickUp(Entry* entry, size_t member, const Ask& ask, Decision* decision) {
  Member& picks = entry->asking[member];
  if (picks.picked()) {
    Refuse(absl::AlreadyExistsError("this member of the gang has its lease"), decision);
    return;
  }
  const std::string held = absl::StrCat("#", entry->number, ".", member);
  const Allocation* const allocation = pool_.Find(held);
  if (allocation == nullptr || up_.count(allocation->server) == 0 ||
      cordons_.count(allocation->server) != 0) {
    // Its server has gone meanwhile.
    Unplace(entry, decision);
    return;
  }
  Allocation lease = *allocation;
  lease.id = ask.lease();
  // Its time counts from now on.
  lease.since_ns = now_ns_;
  lease.ends_ns = ask.lasts_ns() == 0 ? kNever : now_ns_ + ask.lasts_ns();
  pool_.Undo(held);
  pool_.Add(std::move(lease));
  picks.set_picked(true);
  picks.set_lease(ask.lease());
  decision->set_outcome(warpline_placement::GRANTED);
  *decision->mutable_place() = entry->places[member];
  const bool all = std::all_of(entry->asking.begin(), entry->asking.end(),
                               [](const Member& one) { return one.picked(); });
  if (!all) return;
  placed_.erase(entry->number);
  line_.Remove(entry->number);
}

void Allocator::Unplace(Entry* entry, Decision* decision) {
  const bool some = std::any_of(entry->asking.begin(), entry->asking.end(),
                                [](const Member& one) { return one.picked(); });
  if (some) {
    Refuse(absl::UnavailableError("the server that was chosen has gone"), decision);
    Drop(entry->number, "the server of another member of its gang has gone", decision);
    return;
  }
  for (size_t i = 0; i < entry->asking.size(); ++i) Give(absl::StrCat("#", entry->number, ".", i));
  entry->places.clear();
  placed_.erase(entry->number);
  line_.Update(entry);
  decision->set_outcome(warpline_placement::WAITING);
  decision->set_position(1);
  decision->set_waiting(line_.requests());
  decision->set_ask_again_ns(absl::ToInt64Nanoseconds(PauseAt(1)));
  decision->set_message("the server that was chosen has gone");
}

void Allocator::Withdraw(const std::string& tenant, const std::string& ticket, Decision* decision) {
  Entry* const entry = line_.FindTicket(tenant, ticket);
  if (entry == nullptr) return;
  // Who has its lease already is no more asked for.
  if (entry->placed() || entry->asking.size() == 1) {
    Drop(entry->number, "a member of its gang has withdrawn", decision);
    return;
  }
  Unreserve(entry);
  Cancel(entry->number, "", "who needed its devices waits no more", decision);
  line_.RemoveMember(entry, ticket);
}

void Allocator::Drop(uint64_t number, const std::string& why, Decision* decision) {
  Entry* const entry = line_.Find(number);
  if (entry == nullptr) return;
  for (size_t i = 0; i < entry->asking.size() && entry->placed(); ++i) {
    if (!entry->asking[i].picked()) {
      Give(absl::StrCat("#", number, ".", i));
      continue;
    }
    // All or nothing: what some members have got is of no use without the others.
    warpline_placement::Notice notice;
    notice.set_lease(entry->asking[i].lease());
    notice.set_deadline_ns(now_ns_);
    notice.set_reason(why);
    Notify(std::move(notice), decision);
  }
  Unreserve(entry);
  Cancel(number, "", "who needed its devices waits no more", decision);
  placed_.erase(number);
  line_.Remove(number);
}

// --- Time.

void Allocator::DropTheSilent(Decision* decision) {
  const int64_t silence = absl::ToInt64Nanoseconds(options_.silence);
  std::vector<uint64_t> gone;
  std::vector<std::pair<std::string, std::string>> silent;
  for (const auto& [number, entry] : line_.entries()) {
    if (entry->placed()) {
      if (now_ns_ >= entry->pick_up_ns) gone.push_back(number);
      continue;
    }
    for (const auto& member : entry->asking) {
      if (now_ns_ - member.asked_ns() >= silence) {
        silent.emplace_back(entry->ask.tenant(), member.ticket());
      }
    }
  }
  for (const uint64_t number : gone) {
    Drop(number, "a member of its gang never came for its lease", decision);
  }
  for (const auto& [tenant, ticket] : silent) Withdraw(tenant, ticket, decision);
}

void Allocator::TellTheDue(Decision* decision) {
  for (auto notice = notices_.begin(); notice != notices_.end();) {
    if (pool_.Find(notice->first) == nullptr) {
      notice = notices_.erase(notice);
      continue;
    }
    if (notice->second.deadline_ns() <= now_ns_) *decision->add_due() = notice->second;
    ++notice;
  }
}

}  // namespace warpline::placement
