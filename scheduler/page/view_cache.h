// Answers with the pool for all who look at it, who together cost the scheduler one look a second.
#ifndef WARPLINE_SCHEDULER_PAGE_VIEW_CACHE_H_
#define WARPLINE_SCHEDULER_PAGE_VIEW_CACHE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/page/pool_source.h"

namespace warpline::scheduler::page {

struct View {
  std::string json;
  std::string etag;  // Equal for equal texts, with its quotes; empty where there is none.
};

// Thread-safe.
class ViewCache {
 public:
  // A picture is shown for this long, and for longer while somebody takes the next one.
  static constexpr absl::Duration kAge = absl::Seconds(1);
  static constexpr absl::Duration kAgeWhileTaken = absl::Seconds(5);

  // `source` is borrowed.
  ViewCache(PoolSource* source, std::function<absl::Time()> clock)
      : source_(source), clock_(std::move(clock)) {}

  // UNAVAILABLE when the pool cannot be seen now.
  absl::StatusOr<std::shared_ptr<const View>> ViewFor(const Viewer& viewer);

 private:
  // A picture and what was made of it. It is shared because one may be shown while the next is
  // taken.
  struct Shown {
    absl::Time taken;
    PoolPicture picture;
    Mutex mu;
    // By viewer.
    std::map<std::string, std::shared_ptr<const View>> views ABSL_GUARDED_BY(mu);
  };

  absl::StatusOr<std::shared_ptr<Shown>> Current();

  PoolSource* const source_;
  const std::function<absl::Time()> clock_;
  Mutex mu_;
  std::shared_ptr<Shown> shown_ ABSL_GUARDED_BY(mu_);
  bool taking_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_VIEW_CACHE_H_
