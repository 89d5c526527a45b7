// What was promised of an engine to one slice, or to one tenant, and what that has had of it.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNT_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNT_H_

#include <cstdint>

#include "server/gpu_server/dispatch/accounts/contender_terms.h"
#include "server/gpu_server/dispatch/accounts/reservation_account.h"
#include "server/gpu_server/dispatch/accounts/usage_window.h"

namespace warpline::dispatch {

// Of all contenders that name it, together: a slice's sessions may be in several hardware contexts,
// of which each contends by itself, and a tenant may have several slices. Belongs to
// EngineAccounts, whose clock is its own. Thread-compatible.
class EngineAccount {
 public:
  explicit EngineAccount(const ContenderTerms& terms)
      : terms_(terms), reservation_(terms.period_ns, terms.budget_ns) {}

  // Of the contender that came first.
  const ContenderTerms& terms() const { return terms_; }
  // How many contenders there are.
  uint32_t contenders() const { return contenders_; }
  // How many sessions they had at the last look.
  uint32_t sessions() const { return sessions_; }
  // What it has not had of its share while others had more; less than 0 for the opposite.
  int64_t credit_ns() const { return credit_ns_; }
  // Whether it has wanted the engine lately, and so has a part of what others use.
  bool active() const { return active_; }
  // Since when; 0 while it is at rest.
  int64_t active_since_ns() const { return active_since_ns_; }
  // How long it has had the engine since then.
  int64_t attained_ns() const { return attained_ns_; }
  // Of the last second, in thousandths.
  uint32_t used_share() const { return used_.Share(now_ns_); }
  // Copied in the last second.
  int64_t moved_bytes() const { return moved_.Sum(now_ns_); }
  const ReservationAccount& reservation() const { return reservation_; }
  // A turn of one of its contenders begins, or goes on for another quantum.
  void BeginTurn() { reservation_.BeginTurn(); }

 private:
  friend class EngineAccounts;

  const ContenderTerms terms_;
  uint32_t contenders_ = 0;
  uint32_t sessions_ = 0;
  uint32_t seen_sessions_ = 0;  // Of this look.
  bool wants_ = false;          // At this look: some contender does.
  bool active_ = false;
  int64_t now_ns_ = 0;     // Of the last look.
  int64_t wanted_ns_ = 0;  // The last time that it wanted the engine; 0 for never.
  int64_t active_since_ns_ = 0;
  int64_t attained_ns_ = 0;
  int64_t credit_ns_ = 0;
  ReservationAccount reservation_;
  // Reading moves them on.
  mutable UsageWindow used_;
  mutable UsageWindow moved_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNT_H_
