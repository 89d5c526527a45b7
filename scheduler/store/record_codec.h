// Records as values of keys, and back.
#ifndef WARPLINE_SCHEDULER_STORE_RECORD_CODEC_H_
#define WARPLINE_SCHEDULER_STORE_RECORD_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

std::string Encode(const TenantRecord& tenant);
std::string Encode(const SliceRecord& slice);
std::string Encode(const ServerRecord& server);
std::string Encode(const CredentialRecord& credential);
std::string Encode(const CordonRecord& cordon);
std::string Encode(const AuditHead& head);
std::string Encode(const LeaseRecord& lease);
std::string Encode(const LeaseEnd& end);

// Each returns DATA_LOSS for what is no such record, because whoever writes into etcd may write
// anything: for a value that does not parse, or has numbers that stand for nothing. `name` is that
// of the key: a record's name, or a lease's id.
absl::Status Decode(absl::string_view name, const std::string& value, TenantRecord* tenant);
absl::Status Decode(absl::string_view name, const std::string& value, SliceRecord* slice);
absl::Status Decode(absl::string_view name, const std::string& value, ServerRecord* server);
absl::Status Decode(absl::string_view name, const std::string& value, CredentialRecord* credential);
absl::Status Decode(absl::string_view name, const std::string& value, CordonRecord* cordon);
absl::Status Decode(absl::string_view name, const std::string& value, AuditHead* head);
absl::Status Decode(absl::string_view name, const std::string& value, LeaseRecord* lease);
absl::Status Decode(absl::string_view name, const std::string& value, LeaseEnd* end);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_RECORD_CODEC_H_
