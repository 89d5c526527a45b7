// The scheduler's state, kept where it outlives the scheduler. Every change is kept when its call
// returns, whole or not at all, so that a scheduler that is killed at any moment goes on from its
// last answer.
#ifndef WARPLINE_SCHEDULER_STORE_H_
#define WARPLINE_SCHEDULER_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

// Why leases that end together end, and when they are forgotten.
struct LeaseEnd {
  EndReason reason;
  absl::Time forget;
};

// Thread-compatible. Any call may return UNAVAILABLE when what keeps the state fails; nothing has
// changed then, or, with several schedulers, this store takes no further change. A store that
// several schedulers share returns FAILED_PRECONDITION for a change, and changes nothing, once
// another scheduler leads.
class Store {
 public:
  virtual ~Store() = default;

  // Puts an `error` of reading or writing the state into words for the person that starts the
  // scheduler: names where the state is and says what can be done.
  virtual absl::Status Explain(const absl::Status& error) const = 0;

  // The number of the term in which this store writes; it grows with each scheduler that leads.
  // Where there is only one scheduler, it is 0, or what it was when there were several.
  virtual uint64_t epoch() const = 0;
  // How often a call, changes included, has learned that no other scheduler has led until then.
  virtual uint64_t confirmations() const = 0;
  // Returns OK if no other scheduler has led until some moment since confirmations() was `mark`:
  // what was read since then was right at that moment. FAILED_PRECONDITION once another one leads,
  // UNAVAILABLE when it cannot be known now.
  virtual absl::Status ConfirmSince(uint64_t mark) = 0;

  // Adding returns ALREADY_EXISTS for a known name, and updating NOT_FOUND for an unknown one.
  virtual absl::Status AddTenant(const TenantRecord& tenant) = 0;
  virtual absl::Status UpdateTenant(const TenantRecord& tenant) = 0;
  // Removes the tenant, and ends its active leases as `end` says.
  virtual absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end) = 0;
  virtual absl::StatusOr<std::vector<TenantRecord>> Tenants() = 0;

  // Adding returns ALREADY_EXISTS for a known name, updating and removing NOT_FOUND for an unknown
  // one. Leases keep the shape that they were made with.
  virtual absl::Status AddSlice(const SliceRecord& slice) = 0;
  virtual absl::Status UpdateSlice(const SliceRecord& slice) = 0;
  virtual absl::Status RemoveSlice(const std::string& name) = 0;
  // In the order of their names.
  virtual absl::StatusOr<std::vector<SliceRecord>> Slices() = 0;

  // Adds the server, or replaces what is known of it.
  virtual absl::Status PutServer(const ServerRecord& server) = 0;
  // Forgets the server, which may register again, and the head of its audit unless it has a
  // credential. A cordon stays.
  virtual absl::Status ForgetServer(const std::string& name) = 0;
  // Removes the server with its credential and its cordon, and ends its active leases as `end`
  // says. NOT_FOUND for a server that has neither registered nor a credential.
  virtual absl::Status RemoveServer(const std::string& name, const LeaseEnd& end) = 0;
  virtual absl::StatusOr<std::vector<ServerRecord>> Servers() = 0;

  // Store the hash of a server's credential. Adding returns ALREADY_EXISTS, and updating NOT_FOUND.
  virtual absl::Status AddServerCredential(const std::string& server, const std::string& hash) = 0;
  virtual absl::Status UpdateServerCredential(const std::string& server,
                                              const std::string& hash) = 0;
  // Returns an empty text for a server that has no credential.
  virtual absl::StatusOr<std::string> ServerCredential(const std::string& server) = 0;
  // The names of the servers that have a credential.
  virtual absl::StatusOr<std::vector<std::string>> ServersWithCredential() = 0;

  // Adds the cordon, or replaces that of its server.
  virtual absl::Status PutCordon(const CordonRecord& cordon) = 0;
  // OK also where there is none.
  virtual absl::Status RemoveCordon(const std::string& server) = 0;
  virtual absl::StatusOr<std::vector<CordonRecord>> Cordons() = 0;

  // Adds these, or replaces what was known of their servers. They are kept one by one: where that
  // fails, some may have been.
  virtual absl::Status PutAuditHeads(const std::vector<AuditHead>& heads) = 0;
  virtual absl::StatusOr<std::vector<AuditHead>> AuditHeads() = 0;

  // Gives every active lease the time `ttl` from `now` on, but not beyond its end: while nobody
  // led, leases could not be renewed. A store may keep that for the next change of a lease, since
  // whoever leads next does the same.
  virtual absl::Status ExtendLeases(absl::Time now, absl::Duration ttl) = 0;

  virtual absl::Status AddLease(const LeaseRecord& lease) = 0;
  // Updates state, reason, expiry and holder. NOT_FOUND for an unknown lease.
  virtual absl::Status UpdateLease(const LeaseRecord& lease) = 0;
  virtual absl::Status RemoveLease(const std::string& id) = 0;
  virtual absl::StatusOr<std::optional<LeaseRecord>> FindLease(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<LeaseRecord>> Leases() = 0;
  // Those of one kind, found without looking at the others.
  virtual absl::StatusOr<std::vector<LeaseRecord>> ActiveLeases() = 0;
  // The ids of those that have ended, the one that is forgotten first at the front.
  virtual absl::StatusOr<std::vector<std::string>> EndedLeases(const std::string& tenant) = 0;
  // Those of a server that have ended.
  virtual absl::StatusOr<std::vector<LeaseRecord>> EndedLeasesOn(const std::string& server) = 0;
  // Of any state. A lease expires no later than it ends.
  virtual absl::StatusOr<std::vector<LeaseRecord>> LeasesExpiredBy(absl::Time time) = 0;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_H_
