// A slice as one engine's arbiter sees it, in one hardware context: what it wants, what it has had
// and what it may do.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "server/gpu_server/dispatch/arrival_forecast.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/kill_verdict.h"
#include "server/gpu_server/dispatch/ledgers/contender_terms.h"
#include "server/gpu_server/dispatch/ledgers/engine_ledger.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// The demand of all sessions of a slice together, as their workers report it.
struct Wants {
  bool waiting = false;     // Some executor has a command that it may not issue.
  bool in_flight = false;   // Some executor has issued work that is not complete.
  bool worked = false;      // Some work has been completed since the last look.
  uint32_t executors = 0;   // Executors that wait.
  uint32_t sessions = 1;    // Sessions of the slice, at work or not.
  uint32_t niceness = 0;    // The least one of the sessions that want the engine.
  uint64_t commands = 0;    // Commands completed since the last look.
  uint64_t bytes = 0;       // Bytes of the copies issued since the last look.
  KernelFacts kernel = {};  // A launch for which the slice waits; zeros for none.
  // The part of the device's multiprocessors that the slice's working sessions run on, in
  // thousandths, where the sessions of a domain divide them; 0 where that is not known.
  uint32_t share = 0;

  // True if it works. A look may fall between two short kernels, so completed work counts, too.
  bool busy() const { return in_flight || worked; }
};

// Belongs to its EngineArbiter. Thread-compatible.
class Contender {
 public:
  // The ledger outlives the contender.
  Contender(const ContenderTerms& terms, EngineLedger* ledger) : terms_(terms), ledger_(ledger) {}

  const ContenderTerms& terms() const { return terms_; }
  // Called before each look of the arbiter.
  void See(const Wants& wants) { wants_ = wants; }
  // The decision of the last look.
  Grant grant() const { return grant_; }
  // Time for which it has had the engine while the engine was given in turns, as the arbiter
  // measured it, without the free part (ArbiterOptions::handover_ns).
  int64_t charged_ns() const { return charged_ns_; }
  // Time for which it was known to have work in flight, or had the engine to itself, whether
  // charged or not.
  int64_t noted_ns() const { return noted_ns_; }
  // Time for which contenders that do not run together with it wanted the engine.
  int64_t others_wanted_ns() const { return others_wanted_ns_; }
  // Number of turns that it has had.
  uint64_t turns() const { return turns_; }
  const EngineLedger& ledger() const { return *ledger_; }
  // Time for which it could have only a little in flight, because a more urgent contender was
  // expected.
  int64_t limited_ns() const { return limited_ns_; }
  // Returns the policy's verdict to end the slice's work, once for each verdict. Called after each
  // look of the arbiter.
  std::optional<KillVerdict> TakeKill() { return std::exchange(kill_, std::nullopt); }

 private:
  friend class EngineArbiter;

  const ContenderTerms terms_;
  EngineLedger* const ledger_;
  Wants wants_;
  Grant grant_ = Grant::Open();

  int64_t charged_ns_ = 0;
  int64_t noted_ns_ = 0;
  int64_t unretired_ns_ = 0;  // Charged, but not yet reported to the policy.
  int64_t others_wanted_ns_ = 0;
  uint64_t turns_ = 0;
  ArrivalForecast forecast_;  // Kept while the policy wishes it.
  // Times by the arbiter's clock; 0 for never.
  int64_t waiting_since_ns_ = 0;  // 0 while it does not wait.
  int64_t stalled_since_ns_ = 0;  // It wants to go on, and has completed nothing since then.
  int64_t held_until_ns_ = 0;     // The policy holds it back until then.
  int64_t away_until_ns_ = 0;     // It missed its turn, and is left out until then.
  uint32_t missed_ = 0;           // Turns that it has missed in a row.
  // The vgpu of the contender for which it is to have little in flight, as of the last look; 0 for
  // none.
  uint32_t limited_for_ = 0;
  int64_t limited_since_ns_ = 0;
  int64_t limited_ns_ = 0;
  // Values for its next spans in the flight recorder.
  int64_t working_since_ns_ = 0;  // 0 while it has nothing in flight.
  uint64_t work_commands_ = 0;
  uint64_t work_bytes_ = 0;
  TraceReason waits_because_ = TraceReason::kNone;
  uint32_t waits_for_ = 0;  // The other one's ContenderTerms::vgpu.
  std::optional<KillVerdict> kill_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_
