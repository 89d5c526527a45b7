// One slice's part in the use of one engine, in one hardware context: what it wants, what it has
// had, what it may do.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "server/gpu_server/dispatch/accounts/contender_terms.h"
#include "server/gpu_server/dispatch/accounts/engine_account.h"
#include "server/gpu_server/dispatch/arrival_forecast.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/kill_verdict.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// What the slice's sessions say, all together.
struct Wants {
  bool waiting = false;    // Some lane has a command and may not issue it.
  bool in_flight = false;  // Some lane has issued what is not complete.
  bool worked = false;     // Something has become complete since the last look.
  uint32_t lanes = 0;      // That wait.
  uint32_t sessions = 1;   // That it has, at work or not.
  uint64_t commands = 0;   // That have become complete since the last look.
  uint64_t bytes = 0;      // Of copies that were issued since then.
  // The part of the device's multiprocessors that its sessions at work run on, in thousandths,
  // where those of one domain divide them; 0 where that is not known.
  uint32_t share = 0;

  // Looks may fall between two short kernels, each time.
  bool busy() const { return in_flight || worked; }
};

// Belongs to its EngineArbiter. Thread-compatible.
class Contender {
 public:
  // The account outlives the contender.
  Contender(const ContenderTerms& terms, EngineAccount* account)
      : terms_(terms), account_(account) {}

  const ContenderTerms& terms() const { return terms_; }
  // Before each look of the arbiter.
  void See(const Wants& wants) { wants_ = wants; }
  // After it.
  Grant grant() const { return grant_; }
  // The time that it has had the engine while others wanted it, as the arbiter measured it, without
  // what is free (ArbiterOptions::handover_ns).
  int64_t charged_ns() const { return charged_ns_; }
  // How long it was known to have work in flight, or the engine for itself: charged or not.
  int64_t noted_ns() const { return noted_ns_; }
  // How long others wanted the engine that do not run together with it.
  int64_t others_wanted_ns() const { return others_wanted_ns_; }
  // The turns that it had.
  uint64_t turns() const { return turns_; }
  const EngineAccount& account() const { return *account_; }
  // How long it could have but little in flight, for somebody more urgent was expected.
  int64_t limited_ns() const { return limited_ns_; }
  // The policy has its work ended. Once for each verdict; after each look of the arbiter.
  std::optional<KillVerdict> TakeKill() { return std::exchange(kill_, std::nullopt); }

 private:
  friend class EngineArbiter;

  const ContenderTerms terms_;
  EngineAccount* const account_;
  Wants wants_;
  Grant grant_ = Grant::Open();

  int64_t charged_ns_ = 0;
  int64_t noted_ns_ = 0;
  int64_t unretired_ns_ = 0;  // Charged, and the policy was not told.
  int64_t others_wanted_ns_ = 0;
  uint64_t turns_ = 0;
  ArrivalForecast forecast_;  // While the policy asks for it.
  // By the arbiter's clock; 0 for never.
  int64_t waiting_since_ns_ = 0;  // 0 while it does not wait.
  int64_t stalled_since_ns_ = 0;  // It wants to go on, and nothing has become complete since then.
  int64_t held_until_ns_ = 0;     // The policy has it wait.
  int64_t away_until_ns_ = 0;     // It had a turn and did not come.
  uint32_t missed_ = 0;           // How many such turns, one after another.
  // The one for whom it is to have little in flight, as of the last look: its vgpu; 0 for nobody.
  uint32_t limited_for_ = 0;
  int64_t limited_since_ns_ = 0;
  int64_t limited_ns_ = 0;
  // What its spans in the flight recorder will say.
  int64_t working_since_ns_ = 0;  // 0 while it has nothing in flight.
  uint64_t work_commands_ = 0;
  uint64_t work_bytes_ = 0;
  TraceReason waits_because_ = TraceReason::kNone;
  uint32_t waits_for_ = 0;  // ContenderTerms::vgpu of another.
  std::optional<KillVerdict> kill_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_CONTENDER_H_
