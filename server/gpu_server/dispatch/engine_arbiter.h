// Decides which slice has an engine of a GPU, and for how long.
//
// Processes that share a GPU by time slicing cannot be told apart by events: a batch of 10 ms reads
// 20 while another process works. So whoever has the engine has it alone, for a turn, and is
// charged the time of the turn; in between, what is in flight drains. While at most one slice wants
// the engine nobody has turns: it is open, costs nothing and is not charged. A policy that wants to
// be asked always (Wishes of policy/policy.h) is asked about that slice's turns, too; the engine is
// then never open, and at rest between them.
//
//     open --two want it--> draining --nothing of others in flight--> turn
//     turn --its end, and another goes first--> draining
//     turn --nobody else has wanted it for a while--> open
//
// A turn ends early when its slice has nothing in flight, after a short wait if it has had less
// than its share (BAND's, see policy/band.h), so that little is left idle. What is still in flight
// when a turn is over, such as a long kernel, is charged to its slice; after a bound the next turn
// begins beside it, and both are charged half. So who claims to have work in flight for ever pays
// for it. Who claims to wait and does not come when it is its turn is left out for a while, for
// longer each time. Who claims to have nothing in flight loses its turn.
//
// Work in flight cannot be taken back, so whoever comes waits for it. Where the policy wishes,
// those who come at regular intervals are therefore expected (arrival_forecast.h): shortly before,
// whoever would have to yield to them, as the policy says, is to have only a little in flight
// (Grant::Brief). That is so for no more than half of each second, whoever pretends what, and never
// takes a turn away.
//
// Work in flight is not taken back. Of a slice that is best effort the policy may have it ended,
// when it is in the way of a more urgent one (kill_verdict.h): the contender says so after the
// look, and whoever sees to it reports nothing of that work any more.
//
// Which slice is next the policy says; the arbiter counts what policies go by. What a policy leaves
// to the default, or says that the hook does not know, BAND decides.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/band.h"
#include "policy/policy.h"
#include "server/gpu_server/dispatch/accounts/engine_accounts.h"
#include "server/gpu_server/dispatch/accounts/usage_window.h"
#include "server/gpu_server/dispatch/contender.h"
#include "server/gpu_server/dispatch/flight_recorder.h"

namespace warpline::dispatch {

// What policies are told of the device, and of the day.
struct Surroundings {
  // 0 where the device does not say.
  uint32_t power_mw = 0;
  uint32_t power_limit_mw = 0;
  int32_t temperature_c = 0;
  uint32_t day_second = 0;  // Since midnight, UTC.
};

// A policy may not have an engine stand still for longer at a time.
inline constexpr int64_t kMostHoldNs = 10'000'000;

struct ArbiterOptions {
  // As contexts of policies have them: 0 for compute, 1 for copies; and their direction.
  uint32_t engine = 0;
  uint32_t direction = 0;
  uint32_t device = 0;  // Its number.
  // How long a turn is. Between turns an engine is idle for some 150 us, until it has been seen
  // that nothing is in flight any more and the next slice has seen that it may begin: 2.5 % of
  // this.
  int64_t quantum_ns = 6'000'000;
  // What of a turn's first quantum is not charged, where the engine computes: what the engine loses
  // when it goes over from one slice to another, to look, nap and switch contexts. Who has short
  // turns and few would pay a larger part of what it has for that than who has many on end. It is
  // taken off evenly over that quantum, so that short turns gain nothing; at most a twentieth.
  int64_t handover_ns = 150'000;
  // A turn is prolonged this long before its end, so that whoever goes on does not stop.
  int64_t renew_ns = 300'000;
  // For how long who has had less than its share may have nothing in flight.
  int64_t short_wait_ns = 200'000;
  // The same for others: one look might fall between two kernels.
  int64_t least_wait_ns = 80'000;
  // From the beginning of a turn to the first command.
  int64_t start_wait_ns = 1'500'000;
  // What of that is not charged.
  int64_t free_start_ns = 400'000;
  // How long others' work may stay in flight before a turn begins beside it.
  int64_t drain_limit_ns = 20'000'000;
  // For how long nobody else must have wanted the engine before it is open again: who comes back
  // every few milliseconds finds little in flight.
  int64_t linger_ns = 100'000'000;
  // So long before somebody is expected, if the policy wishes it, others are to have only a little
  // in flight: what they have then must be complete when that one comes. 0 for never.
  int64_t expect_ns = 3'000'000;
};

// Thread-compatible: the dispatcher's lock guards it. Its clock is what Look() is told.
class EngineArbiter {
 public:
  // `policy` is borrowed.
  EngineArbiter(const ArbiterOptions& options, policy::Policy* policy)
      : options_(options),
        policy_(policy),
        asked_always_(policy != nullptr && policy->wishes().asked_always),
        expects_(options.expect_ns > 0 && policy != nullptr && policy->wishes().expects) {}

  // Asks this policy from now on, which is borrowed. Whom the former one has wait need not.
  void SetPolicy(policy::Policy* policy);

  // What the policy is told of from now on.
  void SetSurroundings(const Surroundings& surroundings) { surroundings_ = surroundings; }
  // The policy has everybody wait until then, from the next look on, as far as the engine is given
  // in turns.
  void HoldAll(int64_t until_ns) { all_held_until_ns_ = until_ns; }
  // Nobody looks any more, since at most one slice is left, which has the engine for itself.
  void Open();

  // Turns, waits and work of this engine are added to the recorder, which is borrowed, from now on.
  void RecordTo(FlightRecorder* recorder, size_t engine) {
    recorder_ = recorder;
    recorded_as_ = static_cast<uint8_t>(engine);
  }

  // The contender belongs to the arbiter until Remove().
  Contender* Add(const ContenderTerms& terms);
  void Remove(Contender* contender);

  // One look at what all contenders want, which have been told by See(): charges them, and decides
  // anew what each may do. `now_ns` does not go backwards.
  void Look(int64_t now_ns);

  // The contender has used the engine for so long without having been given it: that is its debt,
  // and the others' credit.
  void ChargeStolen(Contender* contender, int64_t stolen_ns);
  // What its account was promised among those that are active and it, in thousandths, at least one.
  uint32_t ShareOf(const Contender& c) const { return accounts_.ShareOf(*c.account_); }
  // How long all looks were about, together.
  int64_t looked_ns() const { return looked_ns_; }

  // Whether anybody wanted the engine at the last look.
  bool wanted() const;
  // Whether it is given in turns at the moment.
  bool in_turns() const { return phase_ != Phase::kOpen; }
  // Whether one turn is over and the next one has not begun.
  bool draining() const { return phase_ == Phase::kDraining && !at_rest(); }
  // Whether nobody wants it, and whoever does is asked about.
  bool at_rest() const { return phase_ == Phase::kDraining && holder_ == nullptr && !wanted(); }
  // Whose turn it is, or is to be; null while the engine is open, or the policy has all wait.
  const Contender* holder() const { return holder_; }
  // For how long the policy has had everybody wait who wants the engine; 0 while it does not.
  int64_t held_ns() const { return held_since_ns_ == 0 ? 0 : now_ns_ - held_since_ns_; }

 private:
  enum class Phase { kOpen, kDraining, kTurn };

  static bool Together(const Contender& a, const Contender& b) {
    return &a == &b || (a.terms_.domain != 0 && a.terms_.domain == b.terms_.domain);
  }
  static bool Wanting(const Contender& c) { return c.wants_.waiting || c.wants_.busy(); }
  bool Counts(const Contender& c) const { return Wanting(c) && c.away_until_ns_ <= now_ns_; }
  bool HeldBy(const Contender& c) const { return holder_ != nullptr && Together(c, *holder_); }
  // Whether somebody wants the engine who does not run together with `c`.
  bool OthersWant(const Contender& c) const;
  bool Contended() const;

  // Accounts.
  // For how long somebody had the engine, and what of that is not charged.
  struct Had {
    int64_t ns = 0;
    int64_t free_ns = 0;
  };
  void Charge(int64_t passed_ns);
  void ChargeTurn(int64_t passed_ns);
  // One of each that have work in flight and run by themselves, or together; none of the holder's
  // if `beside_holder`.
  std::vector<const Contender*> Users(bool beside_holder) const;
  // Charges it to those who run together with `c` and have work in flight, by their parts of the
  // multiprocessors.
  void TakeTogether(const Contender& c, const Had& had, bool owed);
  void Take(Contender& c, const Had& had, bool owed);
  // Of so long in the holder's turn.
  Had InTurn(int64_t ns) const;
  void NoteWants(Contender& c);
  void NoteOthers(int64_t passed_ns);
  void NoteLimits(int64_t passed_ns);

  // Records.
  void Record(const Contender& c, TraceKind kind, TraceReason reason, int64_t since_ns);
  void RecordTurn(TraceReason why);
  void RecordWork(Contender& c);
  void NoteWhyItWaits(Contender& c);

  // Decisions.
  void LookAtTurn();
  // Whether the turn goes on at its end.
  void LookAtItsEnd();
  // Why the turn is of no use any more; kNone while it is.
  TraceReason TurnWasted();
  // What the policy says of a turn while others wait: why it ends; kNone if it goes on.
  TraceReason PolicyEndsTurn();
  // Says who is to have only a little in flight, and for whom.
  void LimitForExpected();
  // `c` is to have only a little in flight for the one with this number; 0 for nobody.
  void Limit(Contender& c, uint32_t expected);
  // Whom `c`, which may issue, would have to yield to, and who is likely to come in a moment; null
  // for nobody.
  const Contender* ExpectedBefore(const Contender& c);
  policy::PreemptContext PreemptContextOf(const Contender& running) const;
  // `waiting` is one of those that wait while another one runs, or are expected; the first of them
  // that is noted, or not.
  void NoteWaiting(Contender& waiting, bool first, policy::PreemptContext* context) const;
  // By when, for its reservation, what it wants is to be done, or would be if it came as it is
  // expected to; 0 where it is not within its budget.
  int64_t DeadlineOf(const Contender& c) const;
  // The next one, never of the holder's domain if `others`; null where the policy has all wait.
  Contender* Choose(bool others);
  policy::Verdict VerdictOn(Contender& c);
  policy::DispatchContext DispatchContextOf(Contender& c) const;
  policy::CopyEnqueueContext CopyContextOf(Contender& c) const;
  policy::ContextHead HeadOf(const Contender& c) const;
  // --- Of work that is in the way (engine_arbiter_kills.cc).
  // The most urgent of those that want to go on and do not run together with `c`, of higher
  // priority than it; null for none.
  const Contender* MoreUrgentThan(const Contender& c) const;
  // Who is more urgent, and for how long the contender's work has been in its way: for how long
  // nothing of either has become complete. 0 for nobody.
  KillVerdict InWay(const Contender& c) const;
  // Asks about what is in flight of others than the holder.
  void AskAboutOverruns();

  // A turn that is under way ends for this reason.
  void BeginDrain(Contender* next, TraceReason why);
  bool Drained() const;
  void BeginTurn();
  // The turn that begins, or goes on for another quantum, is within the reservations of those that
  // have it, or not.
  void MarkReserved();
  // Tells the policy what was charged since it was last told.
  void Retire();
  void Reopen(TraceReason why);
  void Publish();

  const ArbiterOptions options_;
  FlightRecorder* recorder_ = nullptr;  // Null for none.
  uint8_t recorded_as_ = 0;
  policy::Policy* policy_;
  bool asked_always_;
  bool expects_;
  Surroundings surroundings_;
  int64_t all_held_until_ns_ = 0;
  policy::Band default_policy_;
  EngineAccounts accounts_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  int64_t now_ns_ = 0;
  int64_t looked_ns_ = 0;

  Phase phase_ = Phase::kOpen;
  Contender* holder_ = nullptr;
  int64_t phase_since_ns_ = 0;
  int64_t until_ns_ = 0;          // Of a turn.
  bool came_ = false;             // In this turn something was in flight.
  int64_t idle_since_ns_ = 0;     // In this turn; 0 while something is in flight.
  int64_t held_since_ns_ = 0;     // The policy has everybody wait; 0 while it does not.
  int64_t others_wanted_ns_ = 0;  // The last time.
  int64_t turn_ns_ = 0;           // What the holder had in this turn.
  int64_t turn_charged_ns_ = 0;   // And what of that it is charged.
  UsageWindow limited_;           // While anybody was.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_
