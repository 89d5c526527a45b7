// All that a scheduler's state has, of whichever store, to be written into another one.
#ifndef WARPLINE_SCHEDULER_STATE_STATE_CONTENTS_H_
#define WARPLINE_SCHEDULER_STATE_STATE_CONTENTS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/records.h"
#include "scheduler/store.h"

namespace warpline::scheduler {

// What a Store has. The keys that sign tokens, and the operator's credential, are kept beside it.
struct StateContents {
  std::vector<TenantRecord> tenants;
  std::vector<SliceRecord> slices;
  std::vector<ServerRecord> servers;
  std::map<std::string, std::string> credentials;  // Of servers: their hashes.
  std::vector<CordonRecord> cordons;
  std::vector<AuditHead> audit_heads;
  std::vector<LeaseRecord> leases;
};

absl::StatusOr<StateContents> ReadState(Store* store);

// Adds everything to a store that has nothing yet. Calls `between` after each record, and ends with
// its first error.
absl::Status WriteState(const StateContents& contents, Store* store,
                        const std::function<absl::Status()>& between);

// The first record that two states do not have alike, such as "leases/4f1c"; empty when they are
// the same.
std::string FirstDifference(const StateContents& a, const StateContents& b);

// For people: "2 tenants, 1 slices, ...".
std::string Summary(const StateContents& contents);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STATE_STATE_CONTENTS_H_
