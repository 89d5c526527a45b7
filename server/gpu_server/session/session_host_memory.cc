// The part of SessionHost that has sessions give up memory for others: what they keep of what they
// returned, and what they have while others wait for room.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "policy/policy.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {
namespace {

// How long a session whose worker is replaced for its memory may be held up by what is in flight.
constexpr absl::Duration kReclaimWait = absl::Seconds(2);
// How long an idle session may take to come to rest.
constexpr absl::Duration kIdleWait = absl::Seconds(2);
// How soon memory that a policy has wait is tried again.
constexpr absl::Duration kLeastMemoryWait = absl::Milliseconds(1);

dispatch::TraceReason ReasonOf(Eviction::Reason reason) {
  switch (reason) {
    case Eviction::Reason::kIdle:
      return dispatch::TraceReason::kIdle;
    case Eviction::Reason::kTurnOver:
      return dispatch::TraceReason::kUsedUp;
    case Eviction::Reason::kAhead:
      return dispatch::TraceReason::kAhead;
  }
  return dispatch::TraceReason::kNone;
}

}  // namespace

ShortageVerdict SessionHost::OnShortage(const KeptMemory& wanted, const MemoryShortage& shortage) {
  using Kind = ShortageVerdict::Kind;
  if (options_.dispatcher == nullptr) return {};
  const DeviceMemory::Stats stats = wanted.device->stats();
  policy::MemFaultContext context;
  context.wanted_bytes = shortage.wanted_bytes;
  context.used_bytes = shortage.used_bytes;
  context.quota_bytes = shortage.quota_bytes;
  context.pool_free_bytes =
      stats.capacity_bytes - std::min(stats.capacity_bytes, stats.pool.used_bytes());
  const policy::Verdict verdict = options_.dispatcher->AskMemFault(wanted.tenant, context);
  switch (verdict.action) {
    case policy::Action::kFail:
      return {Kind::kFail, {}};
    case policy::Action::kReclaim:
      return {Kind::kReclaim, {}};
    case policy::Action::kHold:
      return {Kind::kWait, std::max(absl::Microseconds(verdict.argument), kLeastMemoryWait)};
    default:
      return {};
  }
}

policy::Verdict SessionHost::AskReclaim(const Session& session, policy::ReclaimContext context) {
  if (options_.dispatcher == nullptr || context.bytes == 0) return {};
  context.age_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(session.age()));
  context.priority = session.entitlement().slice.priority;
  return options_.dispatcher->AskReclaim(session.policy_tenant(), session.id(), context);
}

bool SessionHost::AwaitReturn(const KeptMemory& wanted, absl::Time deadline,
                              std::function<void()> again) {
  bool comes = wanted.device != nullptr && wanted.quota == nullptr &&
               children_.workers()->leaving(wanted.device->ordinal());
  for (const auto& [id, session] : sessions_) comes = comes || session->ComesBack(wanted);
  if (comes) return_waits_.Add(deadline - SteadyNow(), std::move(again));
  return comes;
}

bool SessionHost::EndWaitingWorkers(const DeviceMemory& device) {
  return children_.workers()->EndWaiting(device.ordinal());
}

bool SessionHost::Reclaim(const KeptMemory& wanted, std::function<void()> tried) {
  std::vector<KeepingSession> keeping;
  for (const auto& [id, session] : sessions_) {
    KeepingSession one = {id, session->KeptBytes(wanted)};
    const policy::Verdict verdict = AskReclaim(*session, {.head = {}, .bytes = one.bytes});
    if (verdict.action == policy::Action::kScore) one.score = verdict.argument;
    one.spared = verdict.action == policy::Action::kKeep;
    keeping.push_back(one);
  }
  const std::vector<uint64_t> chosen = ReclaimPolicy().Choose(std::move(keeping));
  if (chosen.empty()) return false;
  ReclaimNext(wanted.payer, {chosen.begin(), chosen.end()}, std::move(tried));
  return true;
}

void SessionHost::ReclaimNext(const std::string& payer, std::deque<uint64_t> sessions,
                              std::function<void()> tried) {
  if (sessions.empty()) return control_.Post(std::move(tried));
  const uint64_t id = sessions.front();
  sessions.pop_front();
  Do(SessionAction::kReplace, id, kReclaimWait,
     [this, payer, id, sessions = std::move(sessions),
      tried = std::move(tried)](const absl::Status& status) {
       control_loop.AssertOnLoop();
       if (const LogPermit permit = books_.log.Ask(payer, kReclaimedLine)) {
         permit.Info("reclaimed returned memory session=", id,
                     " error=", status.ok() ? "" : status.ToString());
       }
       ReclaimNext(payer, sessions, tried);
     });
}

// --- Memory that is moved for others.

bool SessionHost::AwaitRoom(uint64_t session, const DeviceMemory& device, uint64_t bytes,
                            std::function<void(absl::Status)> again) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  // Memory is moved for a lease's limit, and for the device's where sessions may have more.
  if (options_.overcommit.factor <= 1 && LeftOfLimit(session, device) >= bytes) return false;
  const DeviceSlice& slice = found->second->entitlement().slice;
  residency_.Await({.session = session,
                    .bytes = {{device.ordinal(), bytes}},
                    .priority = slice.priority,
                    .weight = slice.weight,
                    .niceness = found->second->niceness(),
                    .grows = true},
                   std::move(again));
  return true;
}

void SessionHost::AwaitReturnOf(const Session& session, std::function<void()> again) {
  const DeviceSlice& slice = session.entitlement().slice;
  residency_.Await({.session = session.id(),
                    .bytes = session.AwayBytes(/*with_request=*/true),
                    .least = session.AwayBytes(/*with_request=*/false),
                    .priority = slice.priority,
                    .weight = slice.weight,
                    .niceness = session.niceness()},
                   [again = std::move(again)](const absl::Status&) { again(); });
}

void SessionHost::OnCame(uint64_t session, absl::Duration took) {
  books_.counters.memory_moves_in.Add(1);
  residency_.OnCame(session, took);
  const auto found = sessions_.find(session);
  if (options_.dispatcher == nullptr || found == sessions_.end()) return;
  for (const auto& device : devices_) {
    const uint64_t bytes = found->second->ChunkBytesOn(*device);
    if (bytes == 0) continue;
    options_.dispatcher->AddMove(
        device->ordinal(),
        {.session = session, .bytes = bytes, .took_ns = absl::ToInt64Nanoseconds(took)});
  }
}

uint64_t SessionHost::OfferedBytes(const DeviceMemory& device) const {
  return static_cast<uint64_t>(options_.overcommit.factor *
                               static_cast<double>(device.capacity_bytes()));
}

uint64_t SessionHost::MostGrowth(uint64_t session, const DeviceMemory& device, bool stays) {
  uint64_t most = ~uint64_t{0};
  for (GrowthFacts& facts : GrowthFactsOf(session, device)) {
    facts.stays = stays;
    most = std::min(most, warpline::server::MostGrowth(facts));
  }
  return most;
}

bool SessionHost::MayStay(uint64_t session, uint64_t bytes, const DeviceMemory& device) {
  std::vector<GrowthFacts> all = GrowthFactsOf(session, device);
  return std::all_of(all.begin(), all.end(), [bytes](GrowthFacts& facts) {
    facts.fixed_bytes += bytes;
    facts.own_bytes -= std::min(facts.own_bytes, bytes);
    return FitsBesideFixed(facts);
  });
}

uint64_t SessionHost::SwapBytesFor(const DeviceMemory& device) const {
  if (device.pager() == nullptr) return 0;
  uint64_t all_devices = 0;
  for (const auto& one : devices_) all_devices += one->capacity_bytes();
  return static_cast<uint64_t>(static_cast<double>(device.pager()->space().bytes()) *
                               static_cast<double>(device.capacity_bytes()) /
                               static_cast<double>(all_devices));
}

void SessionHost::AddGrowthFacts(const Session& session, const DeviceMemory& device, bool grows,
                                 SharesSeen* seen, GrowthFacts* facts) const {
  const uint64_t bytes = session.ChunkBytesOn(device) + session.AwayBytesOn(device);
  facts->total_bytes += session.TotalBytesOn(device);
  facts->fixed_bytes += session.OwnBytesOn(device) + session.StayingBytesOn(device, seen);
  if (!session.WhyNotMovable().empty()) {
    facts->fixed_bytes += bytes;
  } else if (grows) {
    facts->own_bytes = bytes;
  } else {
    facts->largest_bytes = std::max(facts->largest_bytes, bytes);
  }
}

std::vector<GrowthFacts> SessionHost::GrowthFactsOf(uint64_t session, const DeviceMemory& device) {
  std::vector<GrowthFacts> all;
  if (options_.overcommit.factor > 1) {
    GrowthFacts facts;
    facts.capacity_bytes = device.capacity_bytes();
    facts.limit_bytes = OfferedBytes(device);
    facts.host_bytes = SwapBytesFor(device);
    SharesSeen seen;
    for (const auto& [id, other] : sessions_) {
      AddGrowthFacts(*other, device, id == session, &seen, &facts);
    }
    all.push_back(facts);
  }
  const LeaseLimit limit = LimitOf(session);
  if (limit.bytes != 0) all.push_back(LeaseFactsOf(session, device, limit));
  return all;
}

GrowthFacts SessionHost::LeaseFactsOf(uint64_t session, const DeviceMemory& device,
                                      const LeaseLimit& limit) {
  GrowthFacts own;
  own.capacity_bytes = limit.bytes;
  own.limit_bytes = ~uint64_t{0};
  own.host_bytes = SwapBytesFor(device);
  SharesSeen seen;
  // All that leases have that are beyond their limits may be on the host.
  std::map<std::string, std::pair<LeaseLimit, uint64_t>> others;
  for (const auto& [id, other] : sessions_) {
    const LeaseLimit others_limit = LimitOf(id);
    if (others_limit.lease == limit.lease) {
      AddGrowthFacts(*other, device, id == session, &seen, &own);
    } else if (others_limit.bytes != 0) {
      auto& [known, bytes] = others[others_limit.lease];
      known = others_limit;
      bytes += other->TotalBytesOn(device);
    }
  }
  for (const auto& [lease, one] : others) {
    if (one.second > one.first.bytes) own.host_bytes -= std::min(own.host_bytes, one.second);
  }
  return own;
}

uint64_t SessionHost::LeftOfLimit(uint64_t session, const DeviceMemory& device) {
  const LeaseLimit limit = LimitOf(session);
  if (limit.bytes == 0) return ~uint64_t{0};
  uint64_t held = 0;
  for (const auto& [id, other] : sessions_) {
    if (LimitOf(id).lease == limit.lease) held += other->HeldBytesOn(device);
  }
  return limit.bytes - std::min(limit.bytes, held);
}

LeaseLimit SessionHost::LimitOf(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  const Entitlement& entitlement = found->second->entitlement();
  return {entitlement.leased() ? entitlement.lease : absl::StrCat("session ", session),
          found->second->ResidentBytes()};
}

void SessionHost::SetResident(uint64_t id, uint64_t bytes, std::function<void(absl::Status)> done) {
  control_.Post([this, id, bytes, done = std::move(done)] {
    control_loop.AssertOnLoop();
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) {
      return done(absl::NotFoundError(absl::StrCat("no session ", id)));
    }
    if (devices_.front()->pager() == nullptr) {
      return done(absl::FailedPreconditionError("the server moves no memory (--swap_host)"));
    }
    for (const auto& device : devices_) {
      if (bytes == 0) continue;
      const GrowthFacts facts = LeaseFactsOf(id, *device, {LimitOf(id).lease, bytes});
      if (!FitsBesideFixed(facts)) {
        return done(absl::FailedPreconditionError(absl::StrCat(
            "its lease needs at least ", NeededBeside(facts), " bytes of gpu ", device->ordinal(),
            " at a time: its largest session would never be whole there again")));
      }
      if (facts.total_bytes > std::max(bytes, facts.host_bytes)) {
        return done(absl::FailedPreconditionError(absl::StrCat(
            "its lease has ", facts.total_bytes, " bytes of gpu ", device->ordinal(),
            ", and the host's memory has ", facts.host_bytes, " for it (--swap_host)")));
      }
    }
    found->second->SetResidentBytes(bytes);
    residency_.OnLimitChanged();
    done(absl::OkStatus());
  });
}

std::vector<SessionProgress> SessionHost::OpenSessions() {
  std::vector<SessionProgress> open;
  for (const auto& [id, session] : sessions_) {
    const std::optional<SessionProgress> one = session->Progress();
    if (one.has_value()) open.push_back(*one);
  }
  return open;
}

void SessionHost::SuspendIdle(uint64_t session) {
  Do(SessionAction::kSuspend, session, kIdleWait, [this, session](const absl::Status& status) {
    control_loop.AssertOnLoop();
    // Its worker has something that would be lost: the memory leaves alone.
    if (!absl::IsFailedPrecondition(status)) return;
    Do(SessionAction::kPageOut, session, kIdleWait, [](const absl::Status&) {});
  });
}

std::vector<Resident> SessionHost::ResidentsOf(int device) {
  std::vector<Resident> residents;
  for (const auto& [id, session] : sessions_) {
    std::optional<Resident> resident = session->ResidentOn(*DeviceAt(device));
    if (resident.has_value()) residents.push_back(*std::move(resident));
  }
  return residents;
}

void SessionHost::Score(uint64_t wanted_by, std::vector<Resident>* residents) {
  for (Resident& resident : *residents) {
    if (resident.session == wanted_by || resident.moving || !resident.why_not.empty()) continue;
    const policy::Verdict verdict =
        AskReclaim(*sessions_.at(resident.session),
                   {.head = {}, .bytes = resident.bytes, .wanted_by = wanted_by, .moves = 1});
    if (verdict.action == policy::Action::kScore) resident.score = verdict.argument;
    resident.spared = verdict.action == policy::Action::kKeep;
  }
}

DeviceRoom SessionHost::RoomOf(int device) {
  const DeviceMemory::Stats stats = DeviceAt(device)->stats();
  const uint64_t taken = stats.pool.used_bytes() + stats.pool.leaving_bytes;
  return {.free_bytes = stats.capacity_bytes - std::min(stats.capacity_bytes, taken),
          .leaving_bytes = stats.pool.leaving_bytes};
}

void SessionHost::MoveOut(uint64_t session, absl::Duration deadline,
                          std::function<void(absl::Status)> done) {
  Do(SessionAction::kPageOut, session, deadline, std::move(done));
}

void SessionHost::OnEvicted(const Eviction& eviction, const absl::Status& status) {
  if (status.ok()) books_.counters.memory_moves_out.Add(1);
  const auto found = sessions_.find(eviction.session);
  const std::string tenant = found == sessions_.end() ? "" : found->second->payer();
  if (options_.dispatcher != nullptr && status.ok()) {
    options_.dispatcher->AddMove(eviction.device,
                                 {.session = eviction.session,
                                  .wanted_by = eviction.wanted_by,
                                  .out = true,
                                  .reason = ReasonOf(eviction.reason),
                                  .bytes = eviction.bytes,
                                  .took_ns = absl::ToInt64Nanoseconds(eviction.took)});
  }
  if (const LogPermit permit = books_.log.Ask(tenant, kMovedLine)) {
    permit.Info("moved to the host session=", eviction.session, " gpu=", eviction.device,
                " bytes=", eviction.bytes, " reason=", NameOf(ReasonOf(eviction.reason)),
                " wanted_by=", eviction.wanted_by,
                " after_ms=", absl::ToInt64Milliseconds(eviction.turn),
                " took_ms=", absl::ToInt64Milliseconds(eviction.took),
                " error=", status.ok() ? "" : status.ToString());
  }
}

}  // namespace warpline::server
