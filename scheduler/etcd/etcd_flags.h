// The flags of a scheduler that keeps its state in etcd.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_FLAGS_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/etcd/etcd_client.h"

namespace warpline::scheduler {

// Whether `state`, the value of --state, names members of etcd and not a folder.
bool IsEtcdState(absl::string_view state);

// The addresses of "etcd://host:port,host:port". INVALID_ARGUMENT for anything else, and for more
// than sixteen.
absl::StatusOr<std::vector<std::string>> ParseEtcdState(absl::string_view state);

// The members that `state` names, with TLS as the flags say. INVALID_ARGUMENT when `state` does not
// parse, or when it names other hosts than this one and there is no TLS.
absl::StatusOr<EtcdClientOptions> EtcdClientFromFlags(absl::string_view state);

// --etcd_prefix, with a slash at its end. INVALID_ARGUMENT for one that is no path.
absl::StatusOr<std::string> EtcdPrefixFromFlags();

// --leader_ttl. INVALID_ARGUMENT when it is out of range.
absl::StatusOr<absl::Duration> LeaderTtlFromFlags();

// --advertise; empty for none.
std::string AdvertisedFromFlags();

// --state_folder; empty for the default.
std::string StateFolderFromFlags();

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_FLAGS_H_
