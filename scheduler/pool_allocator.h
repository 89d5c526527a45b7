// Keeps the placement library's picture of the pool in line with the scheduler's records, and keeps
// what it says of leases that have to end.
#ifndef WARPLINE_SCHEDULER_POOL_ALLOCATOR_H_
#define WARPLINE_SCHEDULER_POOL_ALLOCATOR_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lease/end_reason.h"
#include "proto/scheduler.pb.h"
#include "scheduler/placement/decision_log.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

// A lease that has to end, or does not have to any more.
struct LeaseNotice {
  std::string lease;
  absl::Time deadline;
  EndReason reason;
  bool cancelled = false;
};

// What a tenant asks for.
struct RoomRequest {
  std::string lease;  // The id that its lease gets.
  uint64_t memory_bytes = 0;
  SliceShape slice = {};
  std::string slice_name = {};
  uint32_t gpus = 1;
  std::vector<std::string> named = {};
  uint32_t sessions = 0;
  std::string ticket = {};
  std::string gang = {};
  uint32_t members = 0;
};

// Thread-compatible. Each change may bring notices: take them with TakeNotices().
class PoolAllocator {
 public:
  explicit PoolAllocator(std::unique_ptr<placement::RecordedAllocator> allocator)
      : allocator_(std::move(allocator)) {}

  // INVALID_ARGUMENT when its parent is not known or is below it.
  absl::Status PutTenant(const TenantRecord& tenant, absl::Time now);
  void RemoveTenant(const std::string& name, absl::Time now);
  // The devices as they were last reported; with `up`, it may get leases.
  void PutServer(
      const std::string& name,
      const google::protobuf::RepeatedPtrField<warpline_internal::ReportedDevice>& devices, bool up,
      absl::Time now);
  void RemoveServer(const std::string& name, absl::Time now);
  void PutCordon(const CordonRecord& cordon, absl::Time now);
  void RemoveCordon(const std::string& server, absl::Time now);
  // A lease that there is; `tenant` is its tenant, if that is known.
  void Restore(const LeaseRecord& lease, const TenantRecord& tenant, absl::Time now);
  void Release(const std::string& lease, absl::Time now);
  // Takes room for a lease at another server: GRANTED with the place, or REFUSED.
  warpline_placement::Decision BeginMove(const std::string& lease, const std::string& to,
                                         const std::string& device, absl::Time now);
  // The lease is where its room was taken, and nowhere else. It has to be on the move.
  void CommitMove(const std::string& lease, absl::Time now);
  // OK also for a lease that is not on the move.
  void EndMove(const std::string& lease, const std::string& why, absl::Time now);
  // Those of a tenant, or of a server, have ended together.
  void ReleaseOfTenant(const std::string& tenant, absl::Time now);
  void ReleaseOfServer(const std::string& server, absl::Time now);

  warpline_placement::Decision Ask(const RoomRequest& request, const TenantRecord& tenant,
                                   absl::Time now);
  void Withdraw(const std::string& tenant, const std::string& ticket, absl::Time now);
  void Advance(absl::Time now);

  // What there is to be said since the last call.
  std::vector<LeaseNotice> TakeNotices();
  // The moves that something else has ended since the last call: leases, and why.
  std::vector<std::pair<std::string, std::string>> TakeEndedMoves();
  // Leases whose time has come, each until it is released.
  std::vector<LeaseNotice> Due() const;
  // Null for a lease that may stay. Good until the next change.
  const LeaseNotice* NoticeFor(const std::string& lease) const;

  const placement::Allocator& allocator() const { return allocator_->allocator(); }
  const absl::Status& log_status() const { return allocator_->log_status(); }

 private:
  warpline_placement::Decision Apply(warpline_placement::Event event, absl::Time now);

  const std::unique_ptr<placement::RecordedAllocator> allocator_;
  std::vector<LeaseNotice> notices_;
  std::vector<std::pair<std::string, std::string>> ended_moves_;
  std::map<std::string, LeaseNotice> ending_;
  std::set<std::string> due_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_POOL_ALLOCATOR_H_
