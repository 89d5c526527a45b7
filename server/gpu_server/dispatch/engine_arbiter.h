// Decides which slice has an engine of a GPU, and for how long.
//
// Events cannot tell how much of a time-sliced GPU each process uses: a batch of 10 ms reads 20
// while another process works. So a slice has the engine alone for a turn and is charged the time
// of that turn; between turns, the work in flight drains. While at most one slice wants the engine
// there are no turns: the engine is open, costs nothing and is not charged. A policy that wants to
// be asked always (Wishes of policy/policy.h) is asked about a lone slice's turns, too. The engine
// is then never open; between turns it is at rest.
//
//     open --two want it--> draining --nothing of others in flight--> turn
//     turn --its end, and another goes first--> draining
//     turn --no other slice has wanted it for a while--> open
//
// A turn ends early when its slice has had nothing in flight for a moment, so that the engine is
// seldom idle. The moment is longer for a slice that has had less than its share (BAND's short
// wait, policy/band.h). Work that is still in flight when a turn is over, such as a long kernel, is
// charged to its slice. After a bound the next turn begins beside it, and both are charged half.
//
// Workers' reports are not trusted. A slice that always claims to have work
// in flight pays for that time. One that claims to wait, but does not come in its turn, is left out
// for a while, for longer each time. One that claims to have nothing in flight loses its turn.
//
// Work in flight cannot be taken back, so a slice that comes waits for it. If the policy wishes it,
// slices that come at regular intervals are therefore expected (arrival_forecast.h). Shortly before
// an expected arrival, the slices that would have to yield to it, as the policy says, may have only
// a little in flight (Grant::Brief). This limits others for at most half of each second, whatever a
// worker pretends, and never takes a turn away.
//
// The policy may have the work of a best-effort slice ended when it is in the way of a more urgent
// slice (kill_verdict.h). The contender says so after the look (Contender::TakeKill). From then on
// the arbiter must not be shown the ended work any more.
//
// The policy chooses the next slice; the arbiter keeps the figures on which policies decide. BAND
// decides where the policy leaves that to the default or gives an answer that its hook does not
// have.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/band.h"
#include "policy/policy.h"
#include "server/gpu_server/dispatch/contender.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/ledgers/engine_ledgers.h"
#include "server/gpu_server/dispatch/ledgers/usage_window.h"

namespace warpline::dispatch {

// The state of the device and the time of day, which policies are told.
struct Surroundings {
  // 0 where the device does not say.
  uint32_t power_mw = 0;
  uint32_t power_limit_mw = 0;
  int32_t temperature_c = 0;
  uint32_t day_second = 0;  // Since midnight, UTC.
};

// The longest time for which one verdict of a policy on a turn or a copy holds a slice back.
inline constexpr int64_t kMostHoldNs = 10'000'000;

struct ArbiterOptions {
  // The engine (0 for compute, 1 for copies) and the direction of copies, as in policies' contexts.
  uint32_t engine = 0;
  uint32_t direction = 0;
  uint32_t device = 0;  // The device's number.
  // The length of a turn. Between turns an engine is idle for some 150 us, which is 2.5 % of this:
  // the arbiter must see that nothing is in flight, and the next slice must see that it may begin.
  int64_t quantum_ns = 6'000'000;
  // The free part of a turn's first quantum, for compute engines. It stands for the time that an
  // engine loses to looks, naps and the switch of contexts when it goes to another slice. Without
  // it, a slice with few, short turns would lose a larger part of its time than a slice with long
  // runs of turns. The free part is spread evenly over the quantum, so that short turns gain
  // nothing, and is at most a twentieth of it.
  int64_t handover_ns = 150'000;
  // A turn is prolonged this long before its end, so that a slice that goes on need not stop.
  int64_t renew_ns = 300'000;
  // A turn ends when its slice has had nothing in flight for this long, if the slice has had less
  // than its share.
  int64_t short_wait_ns = 200'000;
  // This time applies to other slices. It is not 0 because a look may fall between two kernels.
  int64_t least_wait_ns = 80'000;
  // The longest time from the beginning of a turn to its first command.
  int64_t start_wait_ns = 1'500'000;
  // The part of `start_wait_ns` that is not charged.
  int64_t free_start_ns = 400'000;
  // The longest time for which a turn waits until others' work has drained; then it begins beside
  // it.
  int64_t drain_limit_ns = 20'000'000;
  // The engine is open again when no other slice has wanted it for this long. A slice that comes
  // back every few milliseconds thus finds little in flight.
  int64_t linger_ns = 100'000'000;
  // Others may have only a little in flight from this long before an expected arrival on, if the
  // policy wishes it. Their work must be complete when the expected slice comes. 0 for never.
  int64_t expect_ns = 3'000'000;
};

// Thread-compatible: the dispatcher's lock guards it. Its time is the one that Look() is given.
class EngineArbiter {
 public:
  // `policy` is borrowed.
  EngineArbiter(const ArbiterOptions& options, policy::Policy* policy)
      : options_(options),
        policy_(policy),
        asked_always_(policy != nullptr && policy->wishes().asked_always),
        expects_(options.expect_ns > 0 && policy != nullptr && policy->wishes().expects) {}

  // Replaces the policy (borrowed). Slices that the old policy was holding back are released.
  void SetPolicy(policy::Policy* policy);

  // Sets the state of the device that the policy is told from now on.
  void SetSurroundings(const Surroundings& surroundings) { surroundings_ = surroundings; }
  // Makes all slices wait until then, from the next look on, as far as the engine is given in
  // turns.
  void HoldAll(int64_t until_ns) { all_held_until_ns_ = until_ns; }
  // Opens the engine. Called when at most one slice is left and there will be no more looks.
  void Open();

  // Records turns, waits and work of this engine in the recorder (borrowed) from now on.
  void RecordTo(FlightRecorder* recorder, size_t engine) {
    recorder_ = recorder;
    recorded_as_ = static_cast<uint8_t>(engine);
  }

  // Adds a contender. It belongs to the arbiter until Remove().
  Contender* Add(const ContenderTerms& terms);
  void Remove(Contender* contender);

  // Looks at the demands of all contenders, which Contender::See() has set. Charges the contenders,
  // and decides anew what each may do. `now_ns` must not go backwards.
  void Look(int64_t now_ns);

  // Charges the contender for time that it used the engine without having been given it. The time
  // becomes its debt and the others' credit.
  void ChargeStolen(Contender* contender, int64_t stolen_ns);
  // Returns the share, in thousandths and at least 1, that the contender's ledger was promised
  // among itself and the active ledgers.
  uint32_t ShareOf(const Contender& c) const { return ledgers_.ShareOf(*c.ledger_); }
  // Returns the time that all looks covered together.
  int64_t looked_ns() const { return looked_ns_; }

  // Returns whether any contender wanted the engine at the last look.
  bool wanted() const;
  // True while the engine is given in turns.
  bool in_turns() const { return phase_ != Phase::kOpen; }
  // True while one turn is over and the next one has not begun.
  bool draining() const { return phase_ == Phase::kDraining && !at_rest(); }
  // True while no contender wants the engine and the policy will be asked about the first that
  // does.
  bool at_rest() const { return phase_ == Phase::kDraining && holder_ == nullptr && !wanted(); }
  // The contender whose turn it is, or is to be next. Null while the engine is open, and while the
  // policy makes all contenders wait.
  const Contender* holder() const { return holder_; }
  // Time for which the policy has made all contenders wait that want the engine; 0 while it does
  // not.
  int64_t held_ns() const { return held_since_ns_ == 0 ? 0 : now_ns_ - held_since_ns_; }

 private:
  enum class Phase { kOpen, kDraining, kTurn };

  static bool Together(const Contender& a, const Contender& b) {
    return &a == &b || (a.terms_.domain != 0 && a.terms_.domain == b.terms_.domain);
  }
  static bool Wanting(const Contender& c) { return c.wants_.waiting || c.wants_.busy(); }
  bool Counts(const Contender& c) const { return Wanting(c) && c.away_until_ns_ <= now_ns_; }
  bool HeldBy(const Contender& c) const { return holder_ != nullptr && Together(c, *holder_); }
  // Returns whether a contender that does not run together with `c` wants the engine.
  bool OthersWant(const Contender& c) const;
  bool Contended() const;

  // --- Ledgers.
  // Time for which a contender had the engine, and the part of it that is not charged.
  struct Had {
    int64_t ns = 0;
    int64_t free_ns = 0;
  };
  void Charge(int64_t passed_ns);
  void ChargeTurn(int64_t passed_ns);
  // Returns the contenders with work in flight, but only one of each set that run together. With
  // `beside_holder`, those that run together with the holder are left out.
  std::vector<const Contender*> Users(bool beside_holder) const;
  // Charges the time to the contenders that run together with `c` and have work in flight, by their
  // parts of the multiprocessors.
  void TakeTogether(const Contender& c, const Had& had, bool owed);
  void Take(Contender& c, const Had& had, bool owed);
  // Returns `ns` of the holder's turn with the part of it that is free.
  Had InTurn(int64_t ns) const;
  void NoteWants(Contender& c);
  void NoteOthers(int64_t passed_ns);
  void NoteLimits(int64_t passed_ns);

  // --- Records.
  void Record(const Contender& c, TraceKind kind, TraceReason reason, int64_t since_ns);
  void RecordTurn(TraceReason why);
  void RecordWork(Contender& c);
  void NoteWhyItWaits(Contender& c);

  // --- Decisions.
  void LookAtTurn();
  // Prolongs the turn, or ends it, once its end is near.
  void LookAtItsEnd();
  // Returns the reason why the turn is of no use any more; kNone while it is of use.
  TraceReason TurnWasted();
  // Asks the policy about the turn while others wait. Returns the reason why the turn ends; kNone
  // if it goes on.
  TraceReason PolicyEndsTurn();
  // Decides which contenders may have only a little in flight, and for which expected contender.
  void LimitForExpected();
  // Limits `c` to a little in flight for the contender with the vgpu `expected`; 0 ends the limit.
  void Limit(Contender& c, uint32_t expected);
  // Returns a contender that is likely to come in a moment and to which `c`, which may issue, would
  // have to yield. Null if there is none.
  const Contender* ExpectedBefore(const Contender& c);
  policy::PreemptContext PreemptContextOf(const Contender& running) const;
  // Adds `waiting`, which waits while another contender runs or is expected, to the context.
  // `first` says that it is the first one added.
  void NoteWaiting(Contender& waiting, bool first, policy::PreemptContext* context) const;
  // Returns the time by which the contender's reservation wants its work done. If it wants nothing
  // yet, this is the deadline that it would have if it came as expected. 0 if it is not within its
  // budget.
  int64_t DeadlineOf(const Contender& c) const;
  // Returns the contender that goes next; with `others` it is never one that runs together with the
  // holder. Null if none wants the engine or the policy makes all of them wait.
  Contender* Choose(bool others);
  policy::Verdict VerdictOn(Contender& c);
  policy::DispatchContext DispatchContextOf(Contender& c) const;
  policy::CopyEnqueueContext CopyContextOf(Contender& c) const;
  policy::ContextHead HeadOf(const Contender& c) const;
  // --- Work that is in the way (engine_arbiter_kills.cc).
  // Returns the most urgent contender that has a higher priority than `c`, wants to go on, and does
  // not run together with `c`. Null for none.
  const Contender* MoreUrgentThan(const Contender& c) const;
  // Returns the more urgent contender and the time for which the work of `c` has been in its way:
  // both wanted to go on, and neither completed anything. Both values are 0 for none.
  KillVerdict InWay(const Contender& c) const;
  // Asks the policy about work in flight of contenders other than the holder.
  void AskAboutOverruns();

  // Ends the turn that is under way, if there is one, for the reason `why`, and waits for `next`.
  void BeginDrain(Contender* next, TraceReason why);
  bool Drained() const;
  void BeginTurn();
  // Has the ledgers of the turn's contenders note whether the quantum that begins is within their
  // reservations.
  void MarkReserved();
  // Tells the policy the time charged since it was last told.
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
  EngineLedgers ledgers_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  int64_t now_ns_ = 0;
  int64_t looked_ns_ = 0;

  Phase phase_ = Phase::kOpen;
  Contender* holder_ = nullptr;
  int64_t phase_since_ns_ = 0;
  int64_t until_ns_ = 0;          // The turn's end.
  bool came_ = false;             // Some work was in flight in this turn.
  int64_t idle_since_ns_ = 0;     // In this turn; 0 while work is in flight.
  int64_t held_since_ns_ = 0;     // The policy makes all wait; 0 while it does not.
  int64_t others_wanted_ns_ = 0;  // When others last wanted the engine.
  int64_t turn_ns_ = 0;           // Time that the holder has had in this turn.
  int64_t turn_charged_ns_ = 0;   // The part of `turn_ns_` that is charged.
  UsageWindow limited_;           // Time for which any contender was limited.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ENGINE_ARBITER_H_
