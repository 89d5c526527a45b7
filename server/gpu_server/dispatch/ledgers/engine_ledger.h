// The ledger of one slice or one tenant for an engine: the share that it was promised, and its
// use.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGER_H_

#include <cstdint>

#include "common/niceness.h"
#include "server/gpu_server/dispatch/ledgers/contender_terms.h"
#include "server/gpu_server/dispatch/ledgers/reservation_ledger.h"
#include "server/gpu_server/dispatch/ledgers/usage_window.h"

namespace warpline::dispatch {

// All contenders that name the ledger share it. A slice can have several contenders, because its
// sessions in each hardware context contend by themselves, and a tenant may have several slices.
// Belongs to EngineLedgers and uses its clock. Thread-compatible.
class EngineLedger {
 public:
  explicit EngineLedger(const ContenderTerms& terms)
      : terms_(terms), reservation_(terms.period_ns, terms.budget_ns) {}

  // The terms of the contender that came first.
  const ContenderTerms& terms() const { return terms_; }
  // Its weight beside other ledgers, in units of 1 / kUsualNiceWeight: that of its terms, less for
  // the niceness of its sessions.
  uint64_t weight() const { return uint64_t{terms_.weight} * NiceWeight(niceness_); }
  // Number of contenders.
  uint32_t contenders() const { return contenders_; }
  // Number of their sessions at the last look.
  uint32_t sessions() const { return sessions_; }
  // The time by which it fell short of its share while others had more; below 0 if it exceeded it.
  int64_t credit_ns() const { return credit_ns_; }
  // True if it has wanted the engine lately, and so has a share of others' use.
  bool active() const { return active_; }
  // When it became active; 0 while it is at rest.
  int64_t active_since_ns() const { return active_since_ns_; }
  // Time for which it has had the engine since then.
  int64_t attained_ns() const { return attained_ns_; }
  // Its use in the last second, in thousandths.
  uint32_t used_share() const { return used_.Share(now_ns_); }
  // Bytes copied in the last second.
  int64_t moved_bytes() const { return moved_.Sum(now_ns_); }
  const ReservationLedger& reservation() const { return reservation_; }
  // Says that a turn of one of its contenders begins, or goes on for another quantum.
  void BeginTurn() { reservation_.BeginTurn(); }

 private:
  friend class EngineLedgers;

  const ContenderTerms terms_;
  uint32_t contenders_ = 0;
  uint32_t sessions_ = 0;
  uint32_t seen_sessions_ = 0;  // Sessions seen in this look.
  bool wants_ = false;          // Some contender wants the engine at this look.
  // The least niceness of a session that wanted the engine, when one did last; and at this look.
  uint32_t niceness_ = 0;
  uint32_t seen_niceness_ = kMostNiceness;
  bool active_ = false;
  int64_t now_ns_ = 0;     // Time of the last look.
  int64_t wanted_ns_ = 0;  // When it last wanted the engine; 0 for never.
  int64_t active_since_ns_ = 0;
  int64_t attained_ns_ = 0;
  int64_t credit_ns_ = 0;
  ReservationLedger reservation_;
  // Mutable, because reading moves them on to the present.
  mutable UsageWindow used_;
  mutable UsageWindow moved_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGER_H_
