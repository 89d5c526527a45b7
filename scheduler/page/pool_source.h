// Where the page has the pool from: the scheduler that leads, if it is here, or else one that says
// what the state has.
#ifndef WARPLINE_SCHEDULER_PAGE_POOL_SOURCE_H_
#define WARPLINE_SCHEDULER_PAGE_POOL_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "scheduler/pool_snapshot.h"
#include "scheduler/role.h"

namespace warpline::scheduler::page {

struct PoolPicture {
  PoolSnapshot pool;
  std::string leader = {};  // The address of another scheduler, which leads; empty for none.
};

// Thread-safe. UNAVAILABLE when there is nobody who knows.
class PoolSource {
 public:
  virtual ~PoolSource() = default;
  // UNAUTHENTICATED for nobody's credential.
  virtual absl::StatusOr<Viewer> ViewerOf(const std::string& credential) = 0;
  virtual absl::StatusOr<PoolPicture> Take() = 0;
};

// `role` is borrowed.
class PoolOfRole : public PoolSource {
 public:
  explicit PoolOfRole(Role* role) : role_(role) {}

  absl::StatusOr<Viewer> ViewerOf(const std::string& credential) override;
  absl::StatusOr<PoolPicture> Take() override;

 private:
  Role* const role_;
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_POOL_SOURCE_H_
