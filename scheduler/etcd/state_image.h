// All records of the scheduler's state in memory, with what is asked of them. A store that shares
// its state with other schedulers reads it once and answers from here.
#ifndef WARPLINE_SCHEDULER_ETCD_STATE_IMAGE_H_
#define WARPLINE_SCHEDULER_ETCD_STATE_IMAGE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/records.h"
#include "scheduler/store.h"

namespace warpline::scheduler {

// Thread-compatible.
class StateImage {
 public:
  std::map<std::string, TenantRecord> tenants;
  std::map<std::string, SliceRecord> slices;
  std::map<std::string, ServerRecord> servers;
  std::map<std::string, std::string> credentials;  // Of servers: their hashes.
  std::map<std::string, CordonRecord> cordons;
  std::map<std::string, AuditHead> audit_heads;
  std::string signing_keys;   // A KeyRing's text.
  std::string operator_hash;  // Of the credential that counts with every scheduler.

  // Adds a lease, or replaces what is known of it.
  void PutLease(LeaseRecord lease);
  void RemoveLease(const std::string& id);
  // Null for one that is not known. Good until the next change.
  const LeaseRecord* FindLease(const std::string& id) const;
  // The first that was created first.
  std::vector<LeaseRecord> Leases() const;
  // In no particular order, without looking at other leases.
  std::vector<LeaseRecord> ActiveLeases() const;
  // Those for which `chosen`, which may look at any.
  std::vector<LeaseRecord> LeasesWhere(const std::function<bool(const LeaseRecord&)>& chosen) const;

 private:
  std::map<std::string, LeaseRecord> leases_;
  std::set<std::string> active_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_STATE_IMAGE_H_
