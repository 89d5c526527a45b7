// The leases that sessions of this server run under: who may join, how many at once, and the quota
// that they share.
//
// A lease comes with the first token that names it, from the scheduler or, on a server without one,
// from OpenLocal(). It is forgotten when its last session has gone, a local one not before its
// holder gave it up or let it run out.
#ifndef WARPLINE_SERVER_LEASES_LEASE_BOOK_H_
#define WARPLINE_SERVER_LEASES_LEASE_BOOK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "lease/entitlement.h"
#include "lease/token.h"
#include "memory/quota.h"

namespace warpline::server {

class LeaseBook;

// What a session was let in with: its entitlement, and its place in the lease, if it has one, until
// this is destroyed or taken by another. May outlive the book.
class LeaseSeat {
 public:
  // Of nobody: entitled to nothing in particular, in no lease.
  LeaseSeat() = default;
  LeaseSeat(LeaseSeat&&) noexcept = default;
  LeaseSeat& operator=(LeaseSeat&& other) noexcept;
  ~LeaseSeat() { Leave(); }

  const Entitlement& entitlement() const { return entitlement_; }
  // What it may hold of a device that gives `capacity_bytes`. All sessions of a lease share it; it
  // is made at the first call for that device.
  std::shared_ptr<Quota> QuotaOn(const std::string& device_uuid, uint64_t capacity_bytes);

 private:
  friend class LeaseBook;
  struct Shared;
  LeaseSeat(std::shared_ptr<Shared> shared, Entitlement entitlement)
      : shared_(std::move(shared)), entitlement_(std::move(entitlement)) {}
  void Leave();

  std::shared_ptr<Shared> shared_;  // Null without a lease.
  Entitlement entitlement_;
};

struct LeaseBookOptions {
  std::string server_name;
  // Sessions need a token: there is a scheduler. Otherwise they may have one of a local lease.
  bool required = false;
  // What a session without a lease may hold of a device; 0 for all that the device gives. The
  // server's own leases get no more.
  uint64_t session_memory_bytes = 0;
  uint32_t max_local = 1024;
  uint32_t max_local_sessions = 1024;
  absl::Duration local_ttl = absl::Seconds(60);
  // One that nobody sets: SteadyNow().
  std::function<absl::Time()> clock;
};

// What a lease is asked to end for.
struct EndedLease {
  std::string lease;
  std::string reason;
};

// Thread-safe.
class LeaseBook {
 public:
  // INTERNAL when no key can be made.
  static absl::StatusOr<std::unique_ptr<LeaseBook>> Create(LeaseBookOptions options);

  // Lets a session in; without a token where none is required. UNAUTHENTICATED for a token that is
  // missing or does not hold, PERMISSION_DENIED for an ended lease, RESOURCE_EXHAUSTED when the
  // lease has all its sessions, UNAVAILABLE while the scheduler has not said its keys.
  absl::StatusOr<LeaseSeat> Join(const std::string& token);

  // What a session with this token would be entitled to now. Errors as Join().
  absl::StatusOr<Entitlement> Show(const std::string& token) const;

  // Leases of this server's own. `devices` as Entitlement's; `sessions` at a time, 0 for the most.
  // RESOURCE_EXHAUSTED, or FAILED_PRECONDITION where leases come from the scheduler.
  absl::StatusOr<LeaseToken> OpenLocal(uint64_t memory_bytes, std::vector<std::string> devices,
                                       uint32_t sessions, std::string* token);
  // NOT_FOUND when it is over.
  absl::StatusOr<LeaseToken> RenewLocal(const std::string& token, std::string* renewed);
  // Returns the lease; it takes no more sessions.
  absl::StatusOr<std::string> CloseLocal(const std::string& token);

  // The scheduler's keys, in place of those before.
  void SetKeys(std::vector<VerifyKey> keys);
  // What time it is there: tokens are judged by its clock, whatever this host's says.
  void SetSchedulerTime(absl::Time now);
  // No session joins it any more.
  void MarkEnded(const std::string& lease, const std::string& reason);
  // Leases whose time is over, each once.
  std::vector<EndedLease> TakeOver();

  // Sessions by lease.
  std::map<std::string, uint32_t> Sessions() const;
  // Leases that have lost their last session since they were last forgotten.
  std::vector<std::string> IdleLeases() const;
  void ForgetIdle(const std::vector<std::string>& leases);

  const LeaseBookOptions& options() const { return options_; }

 private:
  LeaseBook(LeaseBookOptions options, SigningKey key);

  // By the scheduler's clock where there is one.
  absl::Time Now() const;
  absl::StatusOr<LeaseToken> Open(const std::string& token) const;
  // What a token's sessions get here; those of `token` null have none.
  Entitlement EntitledBy(const LeaseToken* token) const;
  absl::StatusOr<std::string> SignLocal(const LeaseToken& token) const;
  void DropExpired() const;

  const LeaseBookOptions options_;
  const SigningKey own_key_;
  const std::shared_ptr<LeaseSeat::Shared> shared_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_LEASES_LEASE_BOOK_H_
