#include "server/gpu_server/dispatch/engine_arbiter.h"

#include <algorithm>
#include <utility>

namespace warpline::dispatch {
namespace {

// A look that comes late charges no more than this at once.
constexpr int64_t kMostLookNs = 50'000'000;
// A contender that misses turns is left out for this time, doubled for each miss in a row. The
// misses count up to kMostMissed.
constexpr int64_t kFirstAwayNs = 1'000'000;
constexpr uint32_t kMostMissed = 8;
// The part of a second for which others may be limited for expected contenders, in thousandths.
constexpr uint32_t kMostLimitedShare = 500;
// At most one in this many of a turn's first quantum is free.
constexpr int64_t kMostFreePart = 20;

}  // namespace

Contender* EngineArbiter::Add(const ContenderTerms& terms) {
  return contenders_.emplace_back(std::make_unique<Contender>(terms, ledgers_.Join(terms))).get();
}

void EngineArbiter::Remove(Contender* contender) {
  const bool held = holder_ == contender;
  if (held) RecordTurn(TraceReason::kLeft);
  // A contender that comes back finds its use in the policy's maps.
  Retire();
  EngineLedger* const ledger = contender->ledger_;
  std::erase_if(contenders_, [&](const auto& c) { return c.get() == contender; });
  ledgers_.Leave(ledger);
  if (held) Reopen(TraceReason::kLeft);
}

bool EngineArbiter::wanted() const {
  return std::any_of(contenders_.begin(), contenders_.end(),
                     [](const auto& c) { return Wanting(*c); });
}

bool EngineArbiter::OthersWant(const Contender& c) const {
  return std::any_of(contenders_.begin(), contenders_.end(),
                     [&](const auto& other) { return Counts(*other) && !Together(*other, c); });
}

bool EngineArbiter::Contended() const {
  return std::any_of(contenders_.begin(), contenders_.end(),
                     [&](const auto& c) { return Counts(*c) && OthersWant(*c); });
}

void EngineArbiter::Look(int64_t now_ns) {
  const int64_t passed_ns =
      now_ns_ == 0 ? 0 : std::clamp<int64_t>(now_ns - now_ns_, 0, kMostLookNs);
  now_ns_ = std::max(now_ns_, now_ns);
  ledgers_.BeginLook(now_ns_);
  for (const auto& c : contenders_) {
    NoteWants(*c);
    ledgers_.See(c->ledger_, {.wants = Wanting(*c),
                              .bytes = c->wants_.bytes,
                              .sessions = c->wants_.sessions,
                              .niceness = c->wants_.niceness});
  }
  ledgers_.EndLook(passed_ns);
  looked_ns_ += passed_ns;
  NoteOthers(passed_ns);
  NoteLimits(passed_ns);
  Charge(passed_ns);
  switch (phase_) {
    case Phase::kOpen:
      if (asked_always_ || Contended()) BeginDrain(Choose(/*others=*/false), TraceReason::kNone);
      break;
    case Phase::kDraining:
      if (holder_ == nullptr) holder_ = Choose(/*others=*/false);
      if (holder_ == nullptr && !wanted()) {
        if (!asked_always_) Reopen(TraceReason::kAlone);
      } else if (holder_ != nullptr &&
                 (Drained() || now_ns_ - phase_since_ns_ >= options_.drain_limit_ns)) {
        BeginTurn();
      }
      break;
    case Phase::kTurn:
      LookAtTurn();
      break;
  }
  if (phase_ != Phase::kOpen) AskAboutOverruns();
  if (recorder_ != nullptr) {
    for (const auto& c : contenders_) NoteWhyItWaits(*c);
  }
  LimitForExpected();
  Publish();
}

void EngineArbiter::SetPolicy(policy::Policy* policy) {
  policy_ = policy;
  asked_always_ = policy->wishes().asked_always;
  expects_ = options_.expect_ns > 0 && policy->wishes().expects;
  held_since_ns_ = 0;
  all_held_until_ns_ = 0;
  for (const auto& c : contenders_) {
    c->held_until_ns_ = 0;
    c->forecast_.Forget();
  }
}

void EngineArbiter::Open() {
  for (const auto& c : contenders_) Limit(*c, 0);
  if (phase_ != Phase::kOpen) Reopen(TraceReason::kAlone);
}

// --- Ledgers.

void EngineArbiter::NoteWants(Contender& c) {
  if (expects_) c.forecast_.See(Wanting(c), c.wants_.busy(), now_ns_);
  if (!Wanting(c)) {
    c.stalled_since_ns_ = 0;
  } else if (c.stalled_since_ns_ == 0 || c.wants_.worked) {
    c.stalled_since_ns_ = now_ns_;
  }
  if (c.wants_.busy()) c.missed_ = 0;
  if (!c.wants_.waiting || (phase_ == Phase::kTurn && HeldBy(c))) {
    if (c.waiting_since_ns_ != 0) {
      Record(c, TraceKind::kWait, c.waits_because_, c.waiting_since_ns_);
    }
    c.waiting_since_ns_ = 0;
    c.waits_because_ = TraceReason::kNone;
    c.waits_for_ = 0;
  } else if (c.waiting_since_ns_ == 0) {
    c.waiting_since_ns_ = now_ns_;
  }
  RecordWork(c);
}

void EngineArbiter::NoteOthers(int64_t passed_ns) {
  const auto counting = std::count_if(contenders_.begin(), contenders_.end(),
                                      [this](const auto& c) { return Counts(*c); });
  if (counting == 0) return;
  for (const auto& c : contenders_) {
    // Few contenders are in a domain.
    const bool others = c->terms_.domain == 0 ? counting > (Counts(*c) ? 1 : 0) : OthersWant(*c);
    if (others) c->others_wanted_ns_ += passed_ns;
  }
}

void EngineArbiter::NoteLimits(int64_t passed_ns) {
  bool any = false;
  for (const auto& c : contenders_) {
    if (c->limited_for_ == 0 || !Wanting(*c)) continue;
    c->limited_ns_ += passed_ns;
    any = true;
  }
  if (any) limited_.Add(now_ns_, passed_ns);
}

void EngineArbiter::ChargeStolen(Contender* contender, int64_t stolen_ns) {
  contender->unretired_ns_ += stolen_ns;
  ledgers_.ChargeStolen(contender->ledger_, stolen_ns);
}

// A contender that runs by itself has the device for as long as those of one domain together.
void EngineArbiter::Charge(int64_t passed_ns) {
  if (phase_ == Phase::kTurn) {
    ChargeTurn(passed_ns);
  } else {
    const std::vector<const Contender*> users = Users(/*beside_holder=*/false);
    if (users.empty()) return;
    const int64_t each_ns = passed_ns / static_cast<int64_t>(users.size());
    for (const Contender* user : users) TakeTogether(*user, {each_ns}, phase_ == Phase::kDraining);
  }
  ledgers_.GiveOut();
}

std::vector<const Contender*> EngineArbiter::Users(bool beside_holder) const {
  std::vector<const Contender*> users;
  for (const auto& c : contenders_) {
    if (!c->wants_.busy() || (beside_holder && HeldBy(*c))) continue;
    const bool counted = std::any_of(users.begin(), users.end(),
                                     [&](const Contender* user) { return Together(*user, *c); });
    if (!counted) users.push_back(c.get());
  }
  return users;
}

void EngineArbiter::ChargeTurn(int64_t passed_ns) {
  const std::vector<const Contender*> overrunning = Users(/*beside_holder=*/true);
  const bool busy = std::any_of(contenders_.begin(), contenders_.end(),
                                [&](const auto& c) { return c->wants_.busy() && HeldBy(*c); });
  const bool owed = OthersWant(*holder_);
  const bool holds =
      busy || (came_ && owed) || (owed && now_ns_ - phase_since_ns_ > options_.free_start_ns);
  if (!holds && overrunning.empty()) return;
  const int64_t each_ns = passed_ns / (static_cast<int64_t>(overrunning.size()) + (holds ? 1 : 0));
  for (const Contender* user : overrunning) TakeTogether(*user, {each_ns}, /*owed=*/true);
  if (!holds) return;
  const Had had = InTurn(each_ns);
  turn_ns_ += had.ns;
  turn_charged_ns_ += had.ns - had.free_ns;
  if (busy) {
    TakeTogether(*holder_, had, owed);
  } else {
    Take(*holder_, had, owed);
  }
}

EngineArbiter::Had EngineArbiter::InTurn(int64_t ns) const {
  if (options_.engine != 0) return {ns};
  const int64_t first_ns = std::clamp<int64_t>(options_.quantum_ns - turn_ns_, 0, ns);
  const int64_t handover_ns = std::min(options_.handover_ns, options_.quantum_ns / kMostFreePart);
  return {ns, first_ns * handover_ns / options_.quantum_ns};
}

void EngineArbiter::TakeTogether(const Contender& c, const Had& had, bool owed) {
  int64_t shares = 0, weights = 0;
  bool known = true;
  for (const auto& other : contenders_) {
    if (!other->wants_.busy() || !Together(*other, c)) continue;
    shares += other->wants_.share;
    weights += other->terms_.weight;
    known &= other->wants_.share > 0;
  }
  for (const auto& other : contenders_) {
    if (!other->wants_.busy() || !Together(*other, c)) continue;
    const auto part_of = [&](int64_t ns) {
      return known ? ns * other->wants_.share / shares : ns * other->terms_.weight / weights;
    };
    Take(*other, {part_of(had.ns), part_of(had.free_ns)}, owed);
  }
}

void EngineArbiter::Take(Contender& c, const Had& had, bool owed) {
  const int64_t charged_ns = had.ns - had.free_ns;
  ledgers_.Use(c.ledger_, charged_ns, owed);
  c.noted_ns_ += had.ns;
  if (phase_ != Phase::kOpen) {
    c.charged_ns_ += charged_ns;
    c.unretired_ns_ += charged_ns;
  }
}

// --- Records.

void EngineArbiter::Record(const Contender& c, TraceKind kind, TraceReason reason,
                           int64_t since_ns) {
  if (recorder_ == nullptr) return;
  TraceSpan span;
  span.kind = kind;
  span.reason = reason;
  span.engine = recorded_as_;
  span.slice = c.terms_.vgpu;
  span.begin_ns = since_ns;
  span.end_ns = now_ns_;
  switch (kind) {
    case TraceKind::kTurn:
      span.charged_ns = turn_charged_ns_;
      break;
    case TraceKind::kWait:
      span.other = c.waits_for_;
      break;
    case TraceKind::kLimit:
      span.other = c.limited_for_;
      break;
    case TraceKind::kWork:
      span.commands = c.work_commands_;
      span.bytes = c.work_bytes_;
      break;
    case TraceKind::kKill:  // GpuDispatch adds those.
    case TraceKind::kMove:
      break;
  }
  recorder_->Add(span);
}

void EngineArbiter::RecordTurn(TraceReason why) {
  if (phase_ == Phase::kTurn) Record(*holder_, TraceKind::kTurn, why, phase_since_ns_);
}

// Work without a pause becomes one span.
void EngineArbiter::RecordWork(Contender& c) {
  if (c.wants_.busy()) {
    if (c.working_since_ns_ == 0) c.working_since_ns_ = now_ns_;
    c.work_commands_ += c.wants_.commands;
    c.work_bytes_ += c.wants_.bytes;
  } else if (c.working_since_ns_ != 0) {
    Record(c, TraceKind::kWork, TraceReason::kNone, c.working_since_ns_);
    c.working_since_ns_ = 0;
    c.work_commands_ = 0;
    c.work_bytes_ = 0;
  }
}

// A wait is recorded with its weightiest reason. That is the policy's wish, and otherwise the last
// slice whose turn it was.
void EngineArbiter::NoteWhyItWaits(Contender& c) {
  if (c.waiting_since_ns_ == 0 || c.waits_because_ == TraceReason::kHeld) return;
  if (std::max(c.held_until_ns_, all_held_until_ns_) > now_ns_) {
    c.waits_because_ = TraceReason::kHeld;
    c.waits_for_ = 0;
  } else if (phase_ == Phase::kTurn && !HeldBy(c)) {
    c.waits_because_ = TraceReason::kTurnOfAnother;
    c.waits_for_ = holder_->terms_.vgpu;
  } else if (phase_ == Phase::kDraining && c.waits_because_ == TraceReason::kNone) {
    c.waits_because_ = TraceReason::kDraining;
    for (const auto& other : contenders_) {
      if (!Together(*other, c) && other->wants_.in_flight) c.waits_for_ = other->terms_.vgpu;
    }
  }
}

// --- Decisions.

void EngineArbiter::LookAtTurn() {
  const bool others = OthersWant(*holder_);
  if (others) others_wanted_ns_ = now_ns_;
  if (!others && !asked_always_ && now_ns_ - others_wanted_ns_ >= options_.linger_ns) {
    return Reopen(TraceReason::kAlone);
  }
  const bool busy = std::any_of(contenders_.begin(), contenders_.end(),
                                [&](const auto& c) { return c->wants_.busy() && HeldBy(*c); });
  if (busy) {
    came_ = true;
    idle_since_ns_ = 0;
  } else if (idle_since_ns_ == 0) {
    idle_since_ns_ = now_ns_;
  }
  if (all_held_until_ns_ > now_ns_) return BeginDrain(nullptr, TraceReason::kHeld);
  if (!others && !asked_always_) {
    if (now_ns_ >= until_ns_ - options_.renew_ns) until_ns_ = now_ns_ + options_.quantum_ns;
    return;
  }
  // A slice that is alone may leave the engine idle until its turn is over.
  if (!others) return LookAtItsEnd();
  if (const TraceReason wasted = TurnWasted(); wasted != TraceReason::kNone) {
    return BeginDrain(Choose(/*others=*/true), wasted);
  }
  if (const TraceReason why = PolicyEndsTurn(); why != TraceReason::kNone) {
    return BeginDrain(Choose(/*others=*/true), why);
  }
  LookAtItsEnd();
}

void EngineArbiter::LookAtItsEnd() {
  if (now_ns_ < until_ns_ - options_.renew_ns) return;
  Contender* const next = Choose(/*others=*/false);
  if (next != nullptr && HeldBy(*next)) {
    until_ns_ = std::max(until_ns_, now_ns_) + options_.quantum_ns;
    MarkReserved();
  } else if (now_ns_ >= until_ns_) {
    BeginDrain(next, TraceReason::kUsedUp);
  }
}

TraceReason EngineArbiter::TurnWasted() {
  if (idle_since_ns_ == 0) return TraceReason::kNone;
  const int64_t idle_ns = now_ns_ - idle_since_ns_;
  if (came_) {
    // Past its end nothing more is issued, so there is nothing to wait for.
    const bool behind = now_ns_ < until_ns_ && (holder_->ledger_->credit_ns() > 0 ||
                                                holder_->ledger_->used_share() < ShareOf(*holder_));
    const int64_t most_ns = behind ? options_.short_wait_ns : options_.least_wait_ns;
    return idle_ns >= most_ns ? TraceReason::kIdle : TraceReason::kNone;
  }
  if (idle_ns < options_.start_wait_ns) return TraceReason::kNone;
  holder_->missed_ = std::min(holder_->missed_ + 1, kMostMissed);
  holder_->away_until_ns_ = now_ns_ + (kFirstAwayNs << holder_->missed_);
  holder_->forecast_.Forget();
  return TraceReason::kNotCome;
}

TraceReason EngineArbiter::PolicyEndsTurn() {
  policy::PreemptContext context = PreemptContextOf(*holder_);
  bool any = false;
  for (const auto& c : contenders_) {
    if (!Counts(*c) || !c->wants_.waiting || HeldBy(*c) || c->held_until_ns_ > now_ns_) continue;
    NoteWaiting(*c, /*first=*/!any, &context);
    any = true;
  }
  if (!any) return TraceReason::kNone;
  const KillVerdict in_way = InWay(*holder_);
  FillInWay(holder_->terms_.best_effort, in_way.in_way_ns, &context);
  policy::Action action = policy_->OnPreempt(context).action;
  if (Kills(context, action)) {
    holder_->kill_ = in_way;
    return TraceReason::kKilled;
  }
  if (action != policy::Action::kYield && action != policy::Action::kKeep) {
    action = default_policy_.OnPreempt(context).action;
  }
  return action == policy::Action::kYield ? TraceReason::kYielded : TraceReason::kNone;
}

policy::PreemptContext EngineArbiter::PreemptContextOf(const Contender& running) const {
  policy::PreemptContext context;
  context.head = HeadOf(running);
  context.elapsed_ns = static_cast<uint64_t>(now_ns_ - phase_since_ns_);
  context.priority = running.terms_.priority;
  context.engine = options_.engine;
  context.device = options_.device;
  const ReservationLedger& reservation = running.ledger_->reservation();
  context.budget_left_ns = reservation.left_ns();
  context.deadline_ns = static_cast<uint64_t>(reservation.deadline_ns());
  context.turn_is_reserved = reservation.reserved_turn() ? 1 : 0;
  return context;
}

void EngineArbiter::NoteWaiting(Contender& waiting, bool first,
                                policy::PreemptContext* context) const {
  if (waiting.waiting_since_ns_ != 0) {
    const auto waited_ns = static_cast<uint64_t>(now_ns_ - waiting.waiting_since_ns_);
    context->waiting_ns = std::max(context->waiting_ns, waited_ns);
  }
  const int32_t priority = waiting.terms_.priority;
  context->waiting_priority = first ? priority : std::max(context->waiting_priority, priority);
  const auto had = [](uint32_t used, uint32_t share) { return uint64_t{1000} * used / share; };
  const uint32_t used = waiting.ledger_->used_share();
  const uint32_t share = ShareOf(waiting);
  if (first || had(used, share) < had(context->waiting_used_share, context->waiting_bw_share)) {
    context->waiting_used_share = used;
    context->waiting_bw_share = share;
    context->waiting_credit_ns = waiting.ledger_->credit_ns();
  }
  const auto due_ns = static_cast<uint64_t>(DeadlineOf(waiting));
  if (due_ns != 0 && (context->waiting_deadline_ns == 0 || due_ns < context->waiting_deadline_ns)) {
    context->waiting_deadline_ns = due_ns;
  }
}

int64_t EngineArbiter::DeadlineOf(const Contender& c) const {
  const ReservationLedger& ledger = c.ledger_->reservation();
  if (Wanting(c)) return ledger.within_budget() ? ledger.deadline_ns() : 0;
  // A period begins when it comes. One that ends a moment after that is as good as over.
  const int64_t comes_ns = std::max(now_ns_, c.forecast_.next_ns());
  const bool will_be_within = ledger.WithinBudgetAt(comes_ns + ledger.period_ns() / 8);
  return will_be_within ? comes_ns + ledger.period_ns() : 0;
}

void EngineArbiter::LimitForExpected() {
  const bool may = expects_ && limited_.Share(now_ns_) < kMostLimitedShare;
  for (const auto& c : contenders_) {
    const bool issues = phase_ == Phase::kOpen || (phase_ == Phase::kTurn && HeldBy(*c));
    const Contender* const expected = may && issues ? ExpectedBefore(*c) : nullptr;
    Limit(*c, expected == nullptr ? 0 : expected->terms_.vgpu);
  }
}

void EngineArbiter::Limit(Contender& c, uint32_t expected) {
  if (expected == c.limited_for_) return;
  if (c.limited_for_ != 0) {
    Record(c, TraceKind::kLimit, TraceReason::kExpected, c.limited_since_ns_);
  }
  c.limited_for_ = expected;
  c.limited_since_ns_ = now_ns_;
}

const Contender* EngineArbiter::ExpectedBefore(const Contender& c) {
  for (const auto& other : contenders_) {
    if (Wanting(*other) || Together(*other, c)) continue;
    if (!other->forecast_.Expects(now_ns_, options_.expect_ns)) continue;
    policy::PreemptContext context = PreemptContextOf(c);
    context.level = 0;
    NoteWaiting(*other, /*first=*/true, &context);
    if (policy_->OnPreempt(context).action == policy::Action::kYield) return other.get();
  }
  return nullptr;
}

policy::ContextHead EngineArbiter::HeadOf(const Contender& c) const {
  policy::ContextHead head;
  head.vgpu = c.terms_.vgpu;
  head.tenant = c.terms_.tenant;
  head.now_ns = static_cast<uint64_t>(now_ns_);
  return head;
}

policy::DispatchContext EngineArbiter::DispatchContextOf(Contender& c) const {
  policy::DispatchContext context;
  context.head = HeadOf(c);
  const EngineLedger& ledger = *c.ledger_;
  const ReservationLedger& reservation = ledger.reservation();
  context.credit_ns = ledger.credit_ns();
  if (c.waiting_since_ns_ != 0) {
    context.wait_ns = static_cast<uint64_t>(now_ns_ - c.waiting_since_ns_);
  }
  const KernelFacts& kernel = c.wants_.kernel;
  context.kernel = kernel.name;
  context.grid_blocks = kernel.grid_blocks;
  context.expected_ns = static_cast<uint64_t>(kernel.expected_ns);
  context.block_threads = kernel.block_threads;
  context.registers = kernel.registers;
  context.shared_bytes = kernel.shared_bytes;
  context.power_mw = surroundings_.power_mw;
  context.power_limit_mw = surroundings_.power_limit_mw;
  context.temperature_c = surroundings_.temperature_c;
  context.day_second = surroundings_.day_second;
  context.device = options_.device;
  context.used_share = ledger.used_share();
  context.bw_share = ShareOf(c);
  context.queue_depth = c.wants_.executors;
  context.engine = options_.engine;
  context.priority = c.terms_.priority;
  if (ledger.active_since_ns() != 0) {
    context.active_ns = static_cast<uint64_t>(now_ns_ - ledger.active_since_ns());
  }
  context.attained_ns = static_cast<uint64_t>(ledger.attained_ns());
  context.period_ns = static_cast<uint64_t>(reservation.period_ns());
  context.budget_ns = static_cast<uint64_t>(reservation.budget_ns());
  context.budget_left_ns = reservation.left_ns();
  context.deadline_ns = static_cast<uint64_t>(reservation.deadline_ns());
  context.active_slices = ledgers_.active();
  for (const auto& other : contenders_) {
    if (Counts(*other) && other->terms_.priority > c.terms_.priority) {
      ++context.more_urgent_waiting;
    }
  }
  return context;
}

policy::CopyEnqueueContext EngineArbiter::CopyContextOf(Contender& c) const {
  policy::CopyEnqueueContext context;
  context.head = HeadOf(c);
  context.io_used_bytes = static_cast<uint64_t>(c.ledger_->moved_bytes());
  context.io_budget_bytes = static_cast<uint64_t>(ledgers_.moved_bytes()) / 1000 * ShareOf(c);
  context.direction = options_.direction;
  context.priority = c.terms_.priority;
  context.device = options_.device;
  return context;
}

policy::Verdict EngineArbiter::VerdictOn(Contender& c) {
  if (options_.engine != 0) {
    const policy::Verdict verdict = policy_->OnCopyEnqueue(CopyContextOf(c));
    if (verdict.action == policy::Action::kHold) return verdict;
  }
  const policy::DispatchContext context = DispatchContextOf(c);
  const policy::Verdict verdict = policy_->OnDispatch(context);
  switch (verdict.action) {
    case policy::Action::kRun:
    case policy::Action::kHold:
    case policy::Action::kSkip:
    case policy::Action::kScore:
      return verdict;
    default:
      return default_policy_.OnDispatch(context);
  }
}

Contender* EngineArbiter::Choose(bool others) {
  // The policy must know all use before it decides on more.
  Retire();
  Contender* best = nullptr;
  Contender* skipped = nullptr;  // The best of those that run only if no other can.
  uint32_t best_score = 0;
  const auto longer = [](const Contender& a, const Contender& b) {
    if (a.waiting_since_ns_ == 0 || b.waiting_since_ns_ == 0) return b.waiting_since_ns_ == 0;
    return a.waiting_since_ns_ < b.waiting_since_ns_;
  };
  bool held = false;
  for (const auto& c : contenders_) {
    if (!Counts(*c) || (others && HeldBy(*c))) continue;
    if (std::max(c->held_until_ns_, all_held_until_ns_) > now_ns_) {
      held = true;
      continue;
    }
    const policy::Verdict verdict = VerdictOn(*c);
    uint32_t score = 0;
    switch (verdict.action) {
      case policy::Action::kHold: {
        const int64_t hold_ns = verdict.argument == 0 ? 0 : verdict.argument * int64_t{1000};
        c->held_until_ns_ = now_ns_ + std::min(hold_ns, kMostHoldNs);
        held = true;
        continue;
      }
      case policy::Action::kSkip:
        if (skipped == nullptr || c->ledger_->credit_ns() > skipped->ledger_->credit_ns()) {
          skipped = c.get();
        }
        continue;
      case policy::Action::kScore:
        score = verdict.argument;
        break;
      default:
        break;
    }
    if (best == nullptr || score > best_score || (score == best_score && longer(*c, *best))) {
      best = c.get();
      best_score = score;
    }
  }
  if (best == nullptr) best = skipped;
  if (best != nullptr || !held) {
    held_since_ns_ = 0;
  } else if (held_since_ns_ == 0) {
    held_since_ns_ = now_ns_;
  }
  return best;
}

bool EngineArbiter::Drained() const {
  return std::none_of(contenders_.begin(), contenders_.end(),
                      [&](const auto& c) { return c->wants_.in_flight && !HeldBy(*c); });
}

void EngineArbiter::BeginDrain(Contender* next, TraceReason why) {
  if (phase_ == Phase::kTurn) {
    RecordTurn(why);
    Retire();
  }
  phase_ = Phase::kDraining;
  phase_since_ns_ = now_ns_;
  holder_ = next;
  if (holder_ != nullptr && Drained()) BeginTurn();
}

void EngineArbiter::Retire() {
  for (const auto& c : contenders_) {
    if (c->unretired_ns_ == 0) continue;
    policy::RetireContext context;
    context.head = HeadOf(*c);
    context.actual_ns = static_cast<uint64_t>(std::exchange(c->unretired_ns_, 0));
    context.engine = options_.engine;
    context.device = options_.device;
    policy_->OnRetire(context);
  }
}

void EngineArbiter::BeginTurn() {
  turn_ns_ = turn_charged_ns_ = 0;
  phase_ = Phase::kTurn;
  phase_since_ns_ = now_ns_;
  until_ns_ = now_ns_ + options_.quantum_ns;
  came_ = false;
  idle_since_ns_ = 0;
  others_wanted_ns_ = now_ns_;
  ++holder_->turns_;
  MarkReserved();
}

void EngineArbiter::MarkReserved() {
  for (const auto& c : contenders_) {
    if (HeldBy(*c)) c->ledger_->BeginTurn();
  }
}

void EngineArbiter::Reopen(TraceReason why) {
  // Remove() has recorded the turn of a contender that has left.
  if (why != TraceReason::kLeft && phase_ == Phase::kTurn) RecordTurn(why);
  Retire();
  phase_ = Phase::kOpen;
  phase_since_ns_ = now_ns_;
  holder_ = nullptr;
  held_since_ns_ = 0;
}

void EngineArbiter::Publish() {
  for (const auto& c : contenders_) {
    if (phase_ == Phase::kOpen) {
      c->grant_ = contenders_.size() > 1 ? Grant::Shared() : Grant::Open();
    } else if (phase_ == Phase::kTurn) {
      c->grant_ = HeldBy(*c) ? Grant::Turn(until_ns_) : Grant::Closed(until_ns_);
    } else {
      c->grant_ =
          Grant::Closed(HeldBy(*c) || holder_ == nullptr ? now_ns_ : now_ns_ + options_.quantum_ns);
    }
    if (c->limited_for_ != 0) c->grant_ = c->grant_.Brief();
  }
}

}  // namespace warpline::dispatch
