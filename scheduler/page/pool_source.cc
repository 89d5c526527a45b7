#include "scheduler/page/pool_source.h"

#include <utility>

namespace warpline::scheduler::page {

absl::StatusOr<Viewer> PoolOfRole::ViewerOf(const std::string& credential) {
  const auto ask = [&](Scheduler& scheduler) { return scheduler.ViewerOf(credential); };
  auto viewer = AnswerLeading(role_, ask);
  // A tenant that was just removed may be taken for another second.
  if (absl::IsUnavailable(viewer.status())) viewer = AnswerReading(role_, ask);
  return viewer;
}

absl::StatusOr<PoolPicture> PoolOfRole::Take() {
  const auto take = [](Scheduler& scheduler) { return scheduler.Snapshot(); };
  auto pool = AnswerLeading(role_, take);
  if (absl::IsUnavailable(pool.status())) pool = AnswerReading(role_, take);
  if (!pool.ok()) return pool.status();
  return PoolPicture{.pool = *std::move(pool), .leader = role_->LeaderElsewhere()};
}

}  // namespace warpline::scheduler::page
