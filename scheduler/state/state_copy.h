// Copies a scheduler's state from a folder (SQLite) to etcd, and back to a folder.
//
// Whatever moment it is interrupted at, the source is as it was, and the target is either whole or
// one that no scheduler starts with, which the same copy begins anew. What was written is read back
// and compared before the target counts.
#ifndef WARPLINE_SCHEDULER_STATE_STATE_COPY_H_
#define WARPLINE_SCHEDULER_STATE_STATE_COPY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {

// The files of a scheduler that is the only one, in its folder.
std::string StateFileIn(const std::string& folder);
std::string KeysFileIn(const std::string& folder);
std::string OperatorFileIn(const std::string& folder);
std::string EpochFileIn(const std::string& folder);

// Open a state in order to look at it, and leave it as it is. FAILED_PRECONDITION when there is
// none or when it is of another version; otherwise the errors of Store::OpenToRead(). The folder
// stays locked until the process ends.
absl::StatusOr<std::unique_ptr<Store>> OpenFolderToRead(const std::string& folder);
absl::StatusOr<std::unique_ptr<Store>> OpenEtcdToRead(EtcdClient* client,
                                                      const std::string& prefix);

// For people: "2 tenants, 1 slices, ...".
std::string Summary(const Store& store);

// Both return what was done, in lines for people, and refuse to overwrite a state, to copy one that
// a scheduler has, and to copy what is not there: FAILED_PRECONDITION. UNAVAILABLE when etcd or the
// disk fails, DATA_LOSS when what was written is not what was read. `prefix` is that of the keys in
// etcd. The folder stays locked until the process ends.

absl::StatusOr<std::string> CopyToEtcd(const std::string& folder, EtcdClient* client,
                                       const std::string& prefix);

// The scheduler with that folder goes on with the greatest term that there was, so that servers
// take its word.
absl::StatusOr<std::string> CopyToFolder(EtcdClient* client, const std::string& prefix,
                                         const std::string& folder);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STATE_STATE_COPY_H_
