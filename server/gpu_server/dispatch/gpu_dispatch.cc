#include "server/gpu_server/dispatch/gpu_dispatch.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "common/niceness.h"

namespace warpline::dispatch {
namespace {

// After this long at rest, a newcomer need not be noticed at once. Until it is, two slices run at a
// time, as without any dispatch.
constexpr int64_t kRestNs = 100'000'000;
// All sessions of the guarded tier on a GPU are in one context.
constexpr uint64_t kSharedDomain = 1;

// Joins a group's slices into one. They run at once, so it is chance which of the processes the
// driver names. Their use together is at most the sum. The number changes when a slice comes or
// goes, since the sums change then, too.
void AddToGroup(const SliceUse& slice, SliceUse* group) {
  group->tenant = slice.tenant;
  group->vgpu = group->vgpu * 0x01000193 + slice.vgpu;
  group->noted_ns += slice.noted_ns;
  group->others_wanted_ns = std::max(group->others_wanted_ns, slice.others_wanted_ns);
  group->share += slice.share;
  for (const WorkerUse& worker : slice.workers) {
    const bool known = std::any_of(group->workers.begin(), group->workers.end(),
                                   [&worker](const WorkerUse& w) { return w.pid == worker.pid; });
    if (!known) group->workers.push_back(worker);
  }
}

// Returns the grant with a limit to a little in flight.
Grant Limited(Grant grant) {
  if (grant.state() == Grant::State::kClosed) return grant;
  return (grant.open() ? Grant::Shared() : grant).Brief();
}

// Sessions of one slice that are not in the same context, or group, contend by themselves.
std::string KeyOf(const DispatchTerms& terms) {
  if (terms.shares_context) return terms.slice + ", guarded";
  if (!terms.group.empty()) return terms.slice + ", MPS";
  return terms.slice;
}

}  // namespace

// The hash is FNV-1a, so that policies may have the number in their maps.
uint64_t GpuDispatch::TenantNumber(const std::string& tenant) {
  uint64_t number = 0xcbf29ce484222325;
  for (const char c : tenant) number = (number ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return number;
}

uint32_t GpuDispatch::SessionsOf(const std::string& tenant) const {
  uint32_t count = 0;
  for (const auto& [key, slice] : slices_) {
    for (const Member& member : slice.members) {
      if (member.registration->terms_.tenant == tenant) ++count;
    }
  }
  return count;
}

GpuDispatch::GpuDispatch(int ordinal, const ArbiterOptions& options, policy::Policy* policy)
    : ordinal_(ordinal),
      policy_(policy),
      paces_(static_cast<uint32_t>(ordinal)),
      asked_always_(policy->wishes().asked_always) {
  for (size_t i = 0; i < kEngines; ++i) {
    ArbiterOptions own = options;
    own.engine = i == EngineIndex(Engine::kCompute) ? 0 : 1;
    own.device = static_cast<uint32_t>(ordinal);
    own.direction = i == EngineIndex(Engine::kCopyOut) ? 1 : 0;
    arbiters_[i] = std::make_unique<EngineArbiter>(own, policy);
    arbiters_[i]->RecordTo(&recorder_, i);
  }
}

void GpuDispatch::SetPolicy(policy::Policy* policy) {
  for (const auto& arbiter : arbiters_) arbiter->SetPolicy(policy);
  policy_ = policy;
  asked_always_ = policy->wishes().asked_always;
  held_until_ns_ = throttled_until_ns_ = 0;
  if (!is_dispatched()) OpenAll();
}

void GpuDispatch::SetSurroundings(const Surroundings& surroundings) {
  for (const auto& arbiter : arbiters_) arbiter->SetSurroundings(surroundings);
}

void GpuDispatch::Throttle(uint32_t us, int64_t until_ns) {
  throttle_us_ = std::min(us, kMostThrottleUs);
  throttled_until_ns_ = until_ns;
}

int64_t GpuDispatch::RestsUntil(int64_t now_ns) const {
  if (now_ns >= throttled_until_ns_) return held_until_ns_;
  const int64_t rest_ns = kThrottlePeriodNs / 1000 * throttle_us_;
  return std::max(held_until_ns_, now_ns - now_ns % kThrottlePeriodNs + rest_ns);
}

int64_t GpuDispatch::held_ns() const {
  int64_t most = 0;
  for (const auto& arbiter : arbiters_) most = std::max(most, arbiter->held_ns());
  return most;
}

ContenderTerms GpuDispatch::TermsOf(const DispatchTerms& terms, size_t engine) {
  ContenderTerms contender;
  contender.tenant = TenantNumber(terms.tenant);
  contender.vgpu = last_vgpu_;
  const bool computes = engine == EngineIndex(Engine::kCompute);
  contender.weight = std::max(1u, computes ? terms.compute_weight : terms.copy_weight);
  contender.priority = terms.priority;
  contender.period_ns = terms.period_ns;
  contender.budget_ns = terms.budget_ns;
  if (terms.shares_context) {
    contender.domain = kSharedDomain;
  } else if (!terms.group.empty()) {
    contender.domain = std::max(kSharedDomain + 1, TenantNumber(terms.group));
  }
  contender.best_effort = terms.best_effort;
  contender.ledger = computes ? terms.compute_ledger : terms.copy_ledger;
  if (contender.ledger.empty()) contender.ledger = terms.slice;
  return contender;
}

void GpuDispatch::Join(DispatchRegistration* registration, size_t device) {
  Slice& slice = slices_[KeyOf(registration->terms_)];
  if (slice.members.empty()) {
    ++last_vgpu_;
    recorder_.NameSlice(last_vgpu_, registration->terms_.tenant.empty()
                                        ? registration->terms_.slice
                                        : registration->terms_.tenant);
    for (size_t i = 0; i < kEngines; ++i) {
      slice.contenders[i] = arbiters_[i]->Add(TermsOf(registration->terms_, i));
    }
  }
  slice.members.push_back({.registration = registration, .device = device});
  NoteNiceness();
}

void GpuDispatch::Leave(DispatchRegistration* registration) {
  const auto found = slices_.find(KeyOf(registration->terms_));
  if (found == slices_.end()) return;
  std::erase_if(found->second.members,
                [registration](const Member& m) { return m.registration == registration; });
  NoteNiceness();
  if (found->second.members.empty()) {
    for (size_t i = 0; i < kEngines; ++i) arbiters_[i]->Remove(found->second.contenders[i]);
    slices_.erase(found);
  }
  if (!is_dispatched()) OpenAll();
}

void GpuDispatch::NoteNiceness() {
  niceness_differs_ = std::any_of(slices_.begin(), slices_.end(), [](const auto& entry) {
    const std::vector<Member>& members = entry.second.members;
    return std::any_of(members.begin(), members.end(), [&members](const Member& member) {
      return NicenessOf(member) != NicenessOf(members.front());
    });
  });
}

void GpuDispatch::OpenAll() {
  for (const auto& arbiter : arbiters_) arbiter->Open();
  for (auto& [key, slice] : slices_) {
    SetPace(slice, 0);
    slice.held_for = 0;
    for (const Member& member : slice.members) {
      for (EngineSlot& slot : member.registration->page_->device(member.device)) {
        slot.SetGrant(Grant::Open());
      }
    }
  }
}

void GpuDispatch::Read(Member* member, int64_t now_ns) {
  DeviceSlots& slots = member->registration->page_->device(member->device);
  for (size_t i = 0; i < kEngines; ++i) {
    member->read[i] =
        member->registration->readers_[member->device][i].Read(slots[i].worker, now_ns);
    EngineUsage& usage = member->registration->usage_[i];
    usage.commands += member->read[i].commands;
    usage.bytes += member->read[i].bytes;
  }
  const bool waits = member->read[EngineIndex(Engine::kCompute)].waiting > 0;
  member->kernel =
      waits ? member->registration->page_->kernel(member->device).Read() : KernelFacts();
  member->rank = member->registration->page_->ranks(member->device).Highest();
}

void GpuDispatch::ReadUsage(DispatchRegistration* registration, int64_t now_ns) {
  const auto found = slices_.find(KeyOf(registration->terms_));
  if (found == slices_.end()) return;
  // While the GPU is given in turns, the looks come soon enough, and know the use better.
  for (Member& member : found->second.members) {
    if (member.registration != registration || is_dispatched()) continue;
    Read(&member, now_ns);
    for (size_t i = 0; i < kEngines; ++i) registration->usage_[i].busy_ns += member.read[i].busy_ns;
  }
}

GpuUse GpuDispatch::Use() const {
  constexpr size_t kCompute = EngineIndex(Engine::kCompute);
  const EngineArbiter& arbiter = *arbiters_[kCompute];
  GpuUse use;
  use.looked_ns = arbiter.looked_ns();
  std::map<std::string, SliceUse> groups;
  for (const auto& [key, slice] : slices_) {
    const Contender& contender = *slice.contenders[kCompute];
    SliceUse one;
    one.slice = key;
    one.tenant = slice.members.front().registration->terms_.tenant;
    one.vgpu = contender.terms().vgpu;
    one.noted_ns = contender.noted_ns();
    one.others_wanted_ns = contender.others_wanted_ns();
    // Each contender may have all of a ledger's share, and all of them have no more together.
    one.share = std::max(1u, arbiter.ShareOf(contender) / contender.ledger().contenders());
    for (const Member& member : slice.members) {
      const DispatchRegistration& registration = *member.registration;
      if (registration.worker_ == 0) continue;
      one.workers.push_back({registration.terms_.session, registration.worker_,
                             registration.terms_.shares_context, registration.worker_since_us_,
                             registration.usage_[kCompute].busy_ns});
      if (registration.server_ != 0) one.workers.push_back({0, registration.server_, false, 0, 0});
    }
    const std::string& group = slice.members.front().registration->terms_.group;
    if (group.empty()) {
      use.slices.push_back(std::move(one));
    } else {
      AddToGroup(one, &groups[group]);
    }
  }
  for (auto& [name, group] : groups) {
    group.slice = name + ", MPS";
    use.slices.push_back(std::move(group));
  }
  return use;
}

GpuDispatch::Slice* GpuDispatch::SliceOf(uint64_t session) {
  for (auto& [key, slice] : slices_) {
    for (const Member& member : slice.members) {
      if (member.registration->terms_.session == session) return &slice;
    }
  }
  return nullptr;
}

void GpuDispatch::AddMove(const MemoryMove& move, int64_t now_ns) {
  const size_t engine = EngineIndex(move.out ? Engine::kCopyOut : Engine::kCopyIn);
  const Slice* const slice = SliceOf(move.session);
  const Slice* const other = move.wanted_by == 0 ? nullptr : SliceOf(move.wanted_by);
  TraceSpan span;
  span.kind = TraceKind::kMove;
  span.reason = move.reason;
  span.engine = static_cast<uint8_t>(engine);
  if (slice != nullptr) span.slice = slice->contenders[engine]->terms().vgpu;
  if (other != nullptr) span.other = other->contenders[engine]->terms().vgpu;
  span.begin_ns = now_ns - move.took_ns;
  span.end_ns = now_ns;
  span.bytes = move.bytes;
  span.session = move.session;
  span.wanted_by = move.wanted_by;
  recorder_.Add(span);
  // Memory that comes back does so for its own session.
  const Slice* const causes = move.out ? other : slice;
  if (causes != nullptr) arbiters_[engine]->ChargeStolen(causes->contenders[engine], move.took_ns);
}

void GpuDispatch::ChargeStolen(uint64_t session, int64_t stolen_ns) {
  constexpr size_t kCompute = EngineIndex(Engine::kCompute);
  for (auto& [key, slice] : slices_) {
    for (const Member& member : slice.members) {
      if (member.registration->terms_.session != session) continue;
      arbiters_[kCompute]->ChargeStolen(slice.contenders[kCompute], stolen_ns);
      member.registration->stolen_ns_ += stolen_ns;
      return;
    }
  }
}

bool GpuDispatch::Worked(const SlotReading& read) { return read.in_flight || read.commands > 0; }

bool GpuDispatch::WantsEngine(const SlotReading& read) { return read.waiting > 0 || Worked(read); }

uint32_t GpuDispatch::NicenessOf(const Member& member) {
  return std::min(member.registration->terms_.niceness, kMostNiceness);
}

GpuDispatch::Standing GpuDispatch::StandingOf(const Member& member, size_t engine) {
  // Priorities of streams are of kernels.
  const uint32_t rank = engine == EngineIndex(Engine::kCompute) ? member.rank : 0;
  return {NicenessOf(member), kMostRank - rank};
}

GpuDispatch::Standing GpuDispatch::FirstStanding(const Slice& slice, size_t engine) {
  Standing first = {kMostNiceness, kMostRank};
  for (const Member& member : slice.members) {
    if (!member.registration->killed_ && WantsEngine(member.read[engine])) {
      first = std::min(first, StandingOf(member, engine));
    }
  }
  return first;
}

// The time that the device was at work for sessions that divide its multiprocessors is theirs
// together.
int64_t GpuDispatch::PartOf(const Slice& slice, const SlotReading& read) const {
  const bool divided = slice.members.front().registration->terms_.shares_context;
  if (read.share == 0 || !divided) return read.busy_ns;
  return read.busy_ns * read.share / std::max(read.share, busy_shares_);
}

void GpuDispatch::ShowWants(Slice* slice) {
  for (size_t i = 0; i < kEngines; ++i) {
    Wants wants;
    wants.sessions = static_cast<uint32_t>(slice->members.size());
    wants.niceness = FirstStanding(*slice, i).first;
    for (const Member& member : slice->members) {
      if (member.registration->killed_) continue;
      const SlotReading& read = member.read[i];
      wants.waiting |= read.waiting > 0;
      wants.in_flight |= read.in_flight;
      wants.worked |= read.commands > 0;
      wants.executors += read.waiting;
      const bool computes = i == EngineIndex(Engine::kCompute);
      if (computes && wants.kernel.name == 0) wants.kernel = member.kernel;
      wants.commands += read.commands;
      wants.bytes += read.bytes;
      if (Worked(read)) wants.share = std::min(wants.share + read.share, 1000u);
    }
    slice->contenders[i]->See(wants);
  }
}

// Writes the grants, and notes what the slice's sessions have used: what the arbiter has charged
// is divided among those that worked.
void GpuDispatch::Settle(Slice* slice) {
  for (size_t i = 0; i < kEngines; ++i) {
    const Contender& contender = *slice->contenders[i];
    const int64_t charged_ns = contender.charged_ns() - slice->charged_ns[i];
    slice->charged_ns[i] = contender.charged_ns();
    const Standing first = FirstStanding(*slice, i);
    const auto worked = std::count_if(slice->members.begin(), slice->members.end(),
                                      [i](const Member& m) { return Worked(m.read[i]); });
    for (const Member& member : slice->members) {
      const SlotReading& read = member.read[i];
      int64_t& busy_ns = member.registration->usage_[i].busy_ns;
      if (!arbiters_[i]->in_turns()) {
        busy_ns += PartOf(*slice, read);
      } else if (Worked(read)) {
        busy_ns += charged_ns / std::max<int64_t>(1, worked);
      } else if (worked == 0) {
        busy_ns += charged_ns / static_cast<int64_t>(slice->members.size());
      }
      member.registration->page_->device(member.device)[i].server.sharers.store(
          contender.ledger().sessions(), std::memory_order_relaxed);
      if (i == EngineIndex(Engine::kCompute) && slice->held_for != 0) continue;
      const bool behind = StandingOf(member, i) > first;
      member.registration->page_->device(member.device)[i].SetGrant(
          behind ? Limited(contender.grant()) : contender.grant());
    }
  }
}

void GpuDispatch::SetPaces(int64_t now_ns) {
  constexpr size_t kCompute = EngineIndex(Engine::kCompute);
  std::vector<PacedSlice> paced;
  std::vector<Slice*> which;
  for (auto& [key, slice] : slices_) {
    if (!slice.members.front().registration->terms_.shares_context) continue;
    const ContenderTerms& terms = slice.contenders[kCompute]->terms();
    PacedSlice& one = paced.emplace_back();
    one.vgpu = terms.vgpu;
    one.tenant = terms.tenant;
    one.priority = terms.priority;
    one.best_effort = terms.best_effort;
    for (const Member& member : slice.members) {
      if (member.registration->killed_) continue;
      const SlotReading& read = member.read[kCompute];
      one.at_work |= Worked(read);
      one.waiting |= read.waiting > 0;
      one.loading |= read.loading;
      one.progressed |= read.commands > 0 || read.loads > 0;
      slice.busy_ns += static_cast<uint64_t>(read.busy_ns);
      slice.commands += read.commands;
    }
    one.busy_ns = slice.busy_ns;
    one.commands = slice.commands;
    which.push_back(&slice);
  }
  paces_.Look(absl::MakeSpan(paced), now_ns, policy_);
  const uint32_t least_nap_us = now_ns < throttled_until_ns_ ? throttle_us_ : 0;
  for (size_t i = 0; i < paced.size(); ++i) {
    SetPace(*which[i], std::max(paced[i].nap_us, least_nap_us));
    Hold(which[i], paced[i].held_for, now_ns);
    if (paced[i].kill.has_value()) Kill(*which[i], kCompute, *paced[i].kill, now_ns);
  }
}

void GpuDispatch::EndWhatIsInTheWay(int64_t now_ns) {
  for (const auto& [key, slice] : slices_) {
    for (size_t i = 0; i < kEngines; ++i) {
      if (const auto verdict = slice.contenders[i]->TakeKill()) Kill(slice, i, *verdict, now_ns);
    }
  }
}

std::string GpuDispatch::TenantOf(uint32_t vgpu) const {
  for (const auto& [key, slice] : slices_) {
    if (slice.contenders[0]->terms().vgpu == vgpu)
      return slice.members.front().registration->terms_.tenant;
  }
  return "";
}

void GpuDispatch::Kill(const Slice& slice, size_t engine, const KillVerdict& verdict,
                       int64_t now_ns) {
  const KillOrder order = {std::string(policy_->name()), ordinal_, TenantOf(verdict.urgent),
                           verdict.in_way_ns};
  bool any = false;
  for (const Member& member : slice.members) {
    DispatchRegistration& registration = *member.registration;
    const SlotReading& read = member.read[engine];
    // Each session's own terms decide.
    if (!registration.terms_.best_effort || !registration.terms_.on_kill || registration.killed_)
      continue;
    if (!read.in_flight && read.commands == 0) continue;
    registration.killed_ = true;
    any = true;
    orders_.push_back([tell = registration.terms_.on_kill, order] { tell(order); });
  }
  if (!any) return;
  TraceSpan span;
  span.kind = TraceKind::kKill;
  span.reason = TraceReason::kInWay;
  span.engine = static_cast<uint8_t>(engine);
  span.slice = slice.contenders[engine]->terms().vgpu;
  span.other = verdict.urgent;
  span.begin_ns = now_ns - verdict.in_way_ns;
  span.end_ns = now_ns;
  recorder_.Add(span);
}

void GpuDispatch::Hold(Slice* slice, uint32_t held_for, int64_t now_ns) {
  constexpr size_t kCompute = EngineIndex(Engine::kCompute);
  if (slice->held_for == 0 && held_for == 0) return;
  const Contender& contender = *slice->contenders[kCompute];
  if (slice->held_for != held_for) {
    if (slice->held_for != 0) {
      TraceSpan span;
      span.kind = TraceKind::kLimit;
      span.reason = TraceReason::kKeptApart;
      span.engine = kCompute;
      span.slice = contender.terms().vgpu;
      span.other = slice->held_for;
      span.begin_ns = slice->held_since_ns;
      span.end_ns = now_ns;
      recorder_.Add(span);
    }
    slice->held_for = held_for;
    slice->held_since_ns = now_ns;
  }
  for (const Member& member : slice->members) {
    member.registration->page_->device(member.device)[kCompute].SetGrant(
        held_for == 0 ? contender.grant() : Grant::Closed(0));
  }
}

// Sessions that come to a slice, or get another worker, are told at the next look.
void GpuDispatch::SetPace(const Slice& slice, uint32_t nap_us) {
  for (const Member& member : slice.members) {
    DispatchRegistration& registration = *member.registration;
    if (registration.nap_us_ == nap_us || registration.worker_ == 0 || !registration.terms_.on_pace)
      continue;
    registration.nap_us_ = nap_us;
    orders_.push_back([tell = registration.terms_.on_pace, nap_us] { tell(nap_us); });
  }
}

GpuDispatch::Pace GpuDispatch::Look(int64_t now_ns) {
  if (!is_dispatched()) return Pace::kNone;
  busy_shares_ = 0;
  for (auto& [key, slice] : slices_) {
    for (Member& member : slice.members) {
      Read(&member, now_ns);
      const SlotReading& read = member.read[EngineIndex(Engine::kCompute)];
      if (member.registration->terms_.shares_context && Worked(read)) busy_shares_ += read.share;
    }
    ShowWants(&slice);
  }
  bool turns = false;
  bool draining = false;
  bool wanted = false;
  for (const auto& arbiter : arbiters_) {
    arbiter->HoldAll(RestsUntil(now_ns));
    arbiter->Look(now_ns);
    turns |= arbiter->in_turns() && !arbiter->at_rest();
    draining |= arbiter->draining();
    wanted |= arbiter->wanted();
  }
  for (auto& [key, slice] : slices_) Settle(&slice);
  EndWhatIsInTheWay(now_ns);
  SetPaces(now_ns);
  if (wanted) wanted_ns_ = now_ns;
  if (draining) return Pace::kDraining;
  if (turns) return Pace::kTurns;
  const bool lately = now_ns - wanted_ns_ < kRestNs;
  // A slice that comes to an engine at rest waits for the next look.
  if (asked_always_) return lately ? Pace::kTurns : Pace::kWatchful;
  return lately ? Pace::kWatchful : Pace::kSlow;
}

}  // namespace warpline::dispatch
