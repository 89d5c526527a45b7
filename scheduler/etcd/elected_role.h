// The role of a scheduler that is one of several. While it leads it has a Scheduler of the term;
// else it reads the state when somebody asks.
#ifndef WARPLINE_SCHEDULER_ETCD_ELECTED_ROLE_H_
#define WARPLINE_SCHEDULER_ETCD_ELECTED_ROLE_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/leadership.h"
#include "scheduler/role.h"

namespace warpline::scheduler {

struct ElectedRoleOptions {
  SchedulerOptions scheduler;
  std::string prefix = "/warpline/";  // Of all keys.
  absl::Duration key_period;
  absl::Duration leader_ttl = absl::Seconds(2);
};

// Thread-safe.
class ElectedRole : public Role {
 public:
  // What is read for those who only ask is at most this old.
  static constexpr absl::Duration kReadingAge = absl::Seconds(1);

  // `client` is borrowed.
  ElectedRole(ElectedRoleOptions options, EtcdClient* client);
  // Tries to lead from now on. `address` is where servers and clients reach this scheduler.
  void Start(const std::string& address);

  absl::StatusOr<std::shared_ptr<Scheduler>> Leading() override;
  absl::StatusOr<std::shared_ptr<Scheduler>> Reading() override;
  std::string LeaderElsewhere() const override;
  void Housekeep() override;

 private:
  absl::Status Lead(const EtcdGuard& guard);
  void Follow();

  const ElectedRoleOptions options_;
  EtcdClient* const client_;
  mutable Mutex mu_;
  std::shared_ptr<Scheduler> leading_ ABSL_GUARDED_BY(mu_);  // Null while it does not lead.
  std::shared_ptr<Scheduler> reading_ ABSL_GUARDED_BY(mu_);
  absl::Time read_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  // Null before Start(). It ends first, and gives the lead up.
  std::unique_ptr<Leadership> leadership_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ELECTED_ROLE_H_
