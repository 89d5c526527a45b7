// Workers that share a GPU through NVIDIA's Multi-Process Service (MPS): those of one trust group
// on one device, which have a daemon of their own.
//
//   auto membership = groups.Join({"tenant a", ordinal}, {.sm_percent = 30});
//   membership->WhenReady([=](const absl::Status& ready) {
//     if (!ready.ok()) ...                          // There is no daemon.
//     <start the worker with membership->terms()>
//   });
//   membership->WhenOver([=](const std::string& why) { <the worker is of no use any more> });
//
// The daemon starts when the first worker joins, and ends a while after the last one has left. A
// group whose daemon has ended gets another with its next worker. So does a group in which a worker
// has had a fault of the device. Such a fault is all workers' fault, and MPS takes no new client
// until they have left. docs/mps.md says what the group shares, and so gives up.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_GROUPS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_GROUPS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/log/keyed_log_budget.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/mps_groups/mps_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// Who trusts whom, and on which device.
struct MpsGroupKey {
  std::string trust;  // LeaseMembership::payer(), of those that TrustGroupOf() takes.
  int ordinal = 0;

  friend auto operator<=>(const MpsGroupKey&, const MpsGroupKey&) = default;
};

// The trust group of a payer's sessions; empty for a payer that is only an address, behind which
// there may be several people.
std::string TrustGroupOf(const std::string& payer);

// What a worker of a group is started with.
struct MpsTerms {
  std::vector<std::pair<std::string, std::string>> environment;
  // What it may do in the folders of the group.
  std::vector<warpline_internal::JailFolder> folders;
  std::shared_ptr<const jail::Cell> cell;  // Whose user it has; null without a jail.
};

// What is said of a worker that joins.
struct MpsMember {
  uint32_t sm_percent = 100;  // Of the device's multiprocessors, 1 to 100.
  // Whether its device has failed. Null for never.
  std::function<bool()> failed = nullptr;
};

class MpsGroup;

// A worker's part in its group, until it is destroyed. Nothing is called after that.
class MpsMembership : public std::enable_shared_from_this<MpsMembership> {
 public:
  ~MpsMembership();
  MpsMembership(const MpsMembership&) = delete;
  MpsMembership& operator=(const MpsMembership&) = delete;

  // Calls `ready` once, and not before this returns: OK, or why there is no daemon. Called once.
  void WhenReady(std::function<void(const absl::Status&)> ready) RUNS_ON(control_loop);
  // Calls `over` when the daemon has ended by itself, once it was ready. Called once.
  void WhenOver(std::function<void(const std::string& why)> over) RUNS_ON(control_loop) {
    over_ = std::move(over);
  }
  // Once it is ready.
  MpsTerms terms() const RUNS_ON(control_loop);
  // As MpsProcess::server().
  pid_t server() const RUNS_ON(control_loop);
  // Whether the worker was promised a part of the multiprocessors, which it has nowhere else.
  bool limited() const { return member_.sm_percent < 100; }

 private:
  friend class MpsGroup;
  friend class MpsGroups;
  MpsMembership(std::shared_ptr<MpsGroup> group, MpsMember member);

  const std::shared_ptr<MpsGroup> group_;
  const MpsMember member_;
  std::function<void(const absl::Status&)> ready_ ABSL_GUARDED_BY(control_loop);
  std::function<void(const std::string&)> over_ ABSL_GUARDED_BY(control_loop);
};

// Call Stop() before destroying it.
class MpsGroups {
 public:
  // The loops are borrowed.
  MpsGroups(EventLoop* control, EventLoop* spawner, MpsOptions options);
  ~MpsGroups();
  MpsGroups(const MpsGroups&) = delete;
  MpsGroups& operator=(const MpsGroups&) = delete;

  // Joins the group for one worker.
  std::shared_ptr<MpsMembership> Join(const MpsGroupKey& key, MpsMember member)
      RUNS_ON(control_loop);
  // Ends the daemons, and calls `stopped` when nothing is left of them. No worker joins any more.
  void Stop(std::function<void()> stopped) RUNS_ON(control_loop);

  // Daemons that are there, starting or ending.
  size_t daemons() const RUNS_ON(control_loop) { return living_.size(); }

 private:
  friend class MpsGroup;
  // The last worker has left.
  void OnIdle(MpsGroup* group) RUNS_ON(control_loop);
  // The daemon does not start, or has ended by itself.
  void OnOver(MpsGroup* group, const std::string& why) RUNS_ON(control_loop);
  // Nothing is left of the daemon.
  void OnGone(MpsGroup* group) RUNS_ON(control_loop);
  // Takes it from the table, if it is still there: the next worker has another group.
  void Forget(MpsGroup* group) RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  const MpsOptions options_;
  std::map<MpsGroupKey, std::shared_ptr<MpsGroup>> groups_ ABSL_GUARDED_BY(control_loop);
  // All whose daemons are not gone.
  std::vector<std::shared_ptr<MpsGroup>> living_ ABSL_GUARDED_BY(control_loop);
  uint32_t last_folder_ ABSL_GUARDED_BY(control_loop) = 0;
  std::function<void()> stopped_ ABSL_GUARDED_BY(control_loop);
  // By payer, so that one payer's groups do not hide that another payer's jails are weaker.
  KeyedLogBudget log_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_GROUPS_H_
