// Which scheduler answers: this one, or another one of several that leads.
#ifndef WARPLINE_SCHEDULER_ROLE_H_
#define WARPLINE_SCHEDULER_ROLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/leader_hint.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {

// Thread-safe.
class Role {
 public:
  virtual ~Role() = default;

  // The scheduler that decides, if it is here. AnotherScheduler() (proto/leader_hint.h) if it is
  // elsewhere or nowhere.
  //
  // It is shared because a term may end while a request is being answered.
  virtual absl::StatusOr<std::shared_ptr<Scheduler>> Leading() = 0;
  // One that says what there is, the leading one where that is here; what it says may be a second
  // old. UNAVAILABLE when the state cannot be read.
  virtual absl::StatusOr<std::shared_ptr<Scheduler>> Reading() = 0;
  // Where the one that leads answers; empty when it is here or nowhere.
  virtual std::string LeaderElsewhere() const = 0;
  // Housekeeping of the one that leads, if it is here. Call it every second or so.
  virtual void Housekeep() = 0;
};

// Of the only scheduler.
class SoleRole : public Role {
 public:
  explicit SoleRole(std::unique_ptr<Scheduler> scheduler) : scheduler_(std::move(scheduler)) {}

  absl::StatusOr<std::shared_ptr<Scheduler>> Leading() override { return scheduler_; }
  absl::StatusOr<std::shared_ptr<Scheduler>> Reading() override { return scheduler_; }
  std::string LeaderElsewhere() const override { return ""; }
  void Housekeep() override { scheduler_->Housekeep(); }

 private:
  const std::shared_ptr<Scheduler> scheduler_;
};

// Returns what `body(scheduler)` says of the one that leads. What it says is only passed on if it
// led while that was said, whatever happened in between: a promise of one that was paused, or its
// word that there is no such lease, is worth nothing.
template <typename Body>
auto AnswerLeading(Role* role, Body body) -> decltype(body(std::declval<Scheduler&>())) {
  const auto scheduler = role->Leading();
  if (!scheduler.ok()) return scheduler.status();
  const uint64_t mark = (*scheduler)->Confirmations();
  auto answer = body(**scheduler);
  if (auto status = (*scheduler)->ConfirmSince(mark); !status.ok()) {
    return AnotherScheduler(role->LeaderElsewhere(), status.message());
  }
  return answer;
}

// The same of one that may only read.
template <typename Body>
auto AnswerReading(Role* role, Body body) -> decltype(body(std::declval<Scheduler&>())) {
  const auto scheduler = role->Reading();
  if (!scheduler.ok()) return scheduler.status();
  return body(**scheduler);
}

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ROLE_H_
