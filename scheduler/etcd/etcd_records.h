// Records as values in etcd, and back.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_RECORDS_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_RECORDS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/records.h"
#include "scheduler/store.h"

namespace warpline::scheduler {

// What a scheduler must know to read the state. It stands in etcd beside the records, and a
// scheduler that knows less does not lead. A state is of the first format until it has a slice,
// which is the second: a scheduler that does not know slices would renew leases without their
// limits. With the first slice that has a reservation it is of the third: one that does not know
// these would write it without.
inline constexpr int64_t kFirstEtcdFormat = 1;
inline constexpr int64_t kSlicesEtcdFormat = 2;
inline constexpr int64_t kReservationsEtcdFormat = 3;
inline constexpr int64_t kEtcdFormat = kReservationsEtcdFormat;
// A state into which another one is being copied. No scheduler of any version knows it.
inline constexpr int64_t kFillingEtcdFormat = 1000000;

// What a scheduler must know to read a slice of this shape.
int64_t FormatFor(const SliceShape& shape);

std::string EncodeTenant(const TenantRecord& tenant);
std::string EncodeSlice(const SliceRecord& slice);
std::string EncodeServer(const ServerRecord& server);
std::string EncodeCredential(const std::string& hash);
std::string EncodeCordon(const CordonRecord& cordon);
std::string EncodeAuditHead(const AuditHead& head);
std::string EncodeLease(const LeaseRecord& lease);
std::string EncodeEnd(const LeaseEnd& end);

// Whoever writes into etcd may write anything, so each returns DATA_LOSS for what is no such
// record: one that does not parse, or whose numbers stand for nothing. The name or id is the key's.
absl::StatusOr<TenantRecord> DecodeTenant(absl::string_view name, const std::string& value);
absl::StatusOr<SliceRecord> DecodeSlice(absl::string_view name, const std::string& value);
absl::StatusOr<ServerRecord> DecodeServer(absl::string_view name, const std::string& value);
absl::StatusOr<std::string> DecodeCredential(const std::string& value);
absl::StatusOr<CordonRecord> DecodeCordon(absl::string_view server, const std::string& value);
absl::StatusOr<AuditHead> DecodeAuditHead(absl::string_view server, const std::string& value);
absl::StatusOr<LeaseRecord> DecodeLease(absl::string_view id, const std::string& value);
absl::StatusOr<LeaseEnd> DecodeEnd(const std::string& value);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_RECORDS_H_
