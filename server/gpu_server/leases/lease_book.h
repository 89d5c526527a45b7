// The leases that sessions of this server run under: which sessions may join, how many at once, and
// the quota that they share.
//
// The book learns of a lease from the first token that names it, which comes from the scheduler or,
// on a server without one, from OpenLocal(). A lease is forgotten when its last session has gone,
// but a local one not before its holder has given it up or let it run out.
#ifndef WARPLINE_SERVER_GPU_SERVER_LEASES_LEASE_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_LEASES_LEASE_BOOK_H_

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
#include "lease/end_reason.h"
#include "lease/entitlement.h"
#include "lease/token.h"
#include "memory/quota.h"

namespace warpline::server {

class LeaseBook;

// The terms on which a session was admitted: its entitlement, its payer, and its place in the
// lease, if it has one. The place is held until the membership is destroyed or moved from. A
// membership may outlive the book.
//
// The payer is a scheduler's tenant, whichever of its leases it is. A session without a lease is
// paid for by its peer (PeerUnit()). So is a session of a server's own lease, which anybody gets
// who asks.
class LeaseMembership {
 public:
  // An empty membership, without rights and in no lease.
  LeaseMembership() { entitlement_.rights = 0; }
  LeaseMembership(LeaseMembership&&) noexcept = default;
  LeaseMembership& operator=(LeaseMembership&& other) noexcept;
  ~LeaseMembership() { Leave(); }

  const Entitlement& entitlement() const { return entitlement_; }
  const std::string& payer() const { return payer_; }
  // PERMISSION_DENIED once the lease was ended, UNAUTHENTICATED once one of the server's own is
  // over. An empty one is always held.
  absl::Status CheckHeld() const;
  // The session's client is about to open another session of the lease: if this was the last one,
  // the lease is not idle before that time has passed.
  void ExpectAnother(absl::Duration patience);
  // The most that all sessions of the lease may have on each device at a time, with the rest
  // meanwhile on the host; 0 for no limit. The token says it until it is set. A session without a
  // lease has a limit of its own.
  uint64_t ResidentBytes() const;
  void SetResidentBytes(uint64_t bytes);
  // The quota for a device that gives `capacity_bytes` in at most `max_chunks` chunks: its chunks
  // are in proportion to its bytes. All sessions of a lease share it; the first call for the device
  // makes it, unless memory of the lease's former sessions is still held of it. What a peer pays
  // for is all together bounded by LeaseBookOptions::peer_memory_bytes as well.
  std::shared_ptr<Quota> QuotaOn(const std::string& device_uuid, uint64_t capacity_bytes,
                                 uint64_t max_chunks);
  // The quota of host memory that is shared with clients, where all sessions may have
  // `total_bytes`: as large a part of it as the lease has of a device that gives `capacity_bytes`,
  // and at least a sixteenth, or as its slice says. All sessions of a lease share it. It is a part
  // of PayersHostQuota().
  std::shared_ptr<Quota> HostQuota(uint64_t total_bytes, uint64_t capacity_bytes);
  // The quota of all host memory that sessions take which are paid for by the same.
  std::shared_ptr<Quota> PayersHostQuota();

 private:
  friend class LeaseBook;
  struct Shared;
  LeaseMembership(std::shared_ptr<Shared> shared, Entitlement entitlement, const std::string& peer);
  void Leave();
  // Null where no peer pays, or nothing bounds it.
  std::shared_ptr<Quota> PeersQuotaOn(const std::string& device_uuid) const;

  std::shared_ptr<Shared> shared_;  // Null when it is empty.
  Entitlement entitlement_;
  bool peer_pays_ = false;
  std::string payer_;
};

struct LeaseBookOptions {
  std::string server_name;
  // True when sessions need a token, because there is a scheduler. Otherwise they may show one of a
  // local lease.
  bool required = false;
  // The bytes that a session without a lease may hold of a device; 0 for all that the device gives.
  // The server's own leases get no more.
  uint64_t session_memory_bytes = 0;
  // The bytes of a device that a peer may hold in all its sessions without a lease of a scheduler;
  // 0 for no such bound.
  uint64_t peer_memory_bytes = 0;
  // Host memory that sessions may take together which are paid for by the same; 0 for no bound.
  uint64_t payer_host_bytes = 0;
  uint32_t max_local = 1024;
  // The part of these that one peer may have open, so that none takes them all from the others.
  uint32_t max_local_of_peer = 256;
  uint32_t max_local_sessions = 1024;
  absl::Duration local_ttl = absl::Seconds(60);
  // A clock that cannot be set: SteadyNow().
  std::function<absl::Time()> clock;
};

// A lease that ended, and why.
struct EndedLease {
  std::string lease;
  EndReason reason;
};

// Thread-safe.
class LeaseBook {
 public:
  // INTERNAL when no key can be made.
  static absl::StatusOr<std::unique_ptr<LeaseBook>> Create(LeaseBookOptions options);

  // Admits a session; without a token only where none is required. UNAUTHENTICATED for a token that
  // is missing or does not hold, PERMISSION_DENIED for an ended lease, RESOURCE_EXHAUSTED when the
  // lease has all its sessions, UNAVAILABLE until the scheduler has sent its keys. `holder` is the
  // certificate that came with the token, and `peer` pays where no tenant of a scheduler does.
  absl::StatusOr<LeaseMembership> Join(const std::string& token,
                                       const CertificateHolder& holder = {},
                                       const std::string& peer = "");

  // Admits a session again that another server had with this token, which may have expired since:
  // the scheduler says in its next answer if the lease is over. Errors are those of Join().
  absl::StatusOr<LeaseMembership> Rejoin(const std::string& token, const CertificateHolder& holder,
                                         const std::string& peer);

  // Returns the lease that a ticket moves to this server. UNAUTHENTICATED where it moves none, or
  // where no scheduler gives leases; UNAVAILABLE until that has sent its keys.
  absl::StatusOr<LeaseToken> OpenTicket(const std::string& ticket) const;
  // Admits a session of a lease that is on its way to this server. Until Arrive() is called the
  // lease is not reported to the scheduler, which does not know yet that it is here. Errors are
  // those of Join().
  absl::StatusOr<LeaseMembership> JoinMoved(const LeaseToken& ticket,
                                            const CertificateHolder& holder,
                                            const std::string& peer);
  // The lease is this server's, or will not be.
  void Arrive(const std::string& lease);
  // Returns the lease of a token that the scheduler signed for any of its servers. `*here` is set
  // if it is for this one, and then it has not expired. UNAUTHENTICATED for another token.
  absl::StatusOr<std::string> LeaseOf(const std::string& token, const CertificateHolder& holder,
                                      bool* here) const;

  // Returns what a session with this token would be entitled to now. The errors are those of
  // Join().
  absl::StatusOr<Entitlement> Show(const std::string& token,
                                   const CertificateHolder& holder = {}) const;

  // Opens a lease of this server's own. `devices` is that of its Entitlement; `sessions` may run at
  // a time, where 0 stands for the most. RESOURCE_EXHAUSTED for more than the server keeps or
  // `peer` may have, or FAILED_PRECONDITION where leases come from the scheduler.
  absl::StatusOr<LeaseToken> OpenLocal(uint64_t memory_bytes, std::vector<std::string> devices,
                                       uint32_t sessions, std::string* token,
                                       const CertificateHolder& holder = {},
                                       const std::string& peer = "");
  // Renews such a lease. NOT_FOUND when it is over, UNAUTHENTICATED for another holder's.
  absl::StatusOr<LeaseToken> RenewLocal(const std::string& token, std::string* renewed,
                                        const CertificateHolder& holder = {});
  // Ends such a lease and returns its id; it takes no more sessions.
  absl::StatusOr<std::string> CloseLocal(const std::string& token);

  // Replaces the scheduler's keys.
  void SetKeys(std::vector<VerifyKey> keys);
  // Sets the scheduler's time. Tokens are judged by its clock, whatever the clock of this host
  // says.
  void SetSchedulerTime(absl::Time now);
  // Marks a lease as ended; no session joins it any more, and those that try are told
  // ReasonForHolder().
  void MarkEnded(const std::string& lease, const EndReason& reason);
  // Returns the leases whose time is over, each of them once.
  std::vector<EndedLease> TakeEnded();

  // The number of sessions of each lease.
  std::map<std::string, uint32_t> Sessions() const;
  // The leases that have lost their last session since they were last forgotten here. A lease
  // whose next session is expected is not idle yet.
  std::vector<std::string> IdleLeases() const;
  void ForgetIdle(const std::vector<std::string>& leases);

  const LeaseBookOptions& options() const { return options_; }

 private:
  LeaseBook(LeaseBookOptions options, SigningKey key);

  // Returns the keys of tokens; UNAVAILABLE until the scheduler has sent them.
  absl::StatusOr<std::vector<VerifyKey>> Keys() const;
  // Takes a place in the lease of a token that holds.
  absl::StatusOr<LeaseMembership> Enter(const LeaseToken& token, const std::string& peer,
                                        bool moves);
  // The time by the scheduler's clock where there is a scheduler.
  absl::Time Now() const;
  absl::StatusOr<LeaseToken> Open(const std::string& token, const CertificateHolder& holder,
                                  bool may_be_expired = false) const;
  absl::StatusOr<LeaseMembership> JoinAs(const std::string& token, const CertificateHolder& holder,
                                         const std::string& peer, bool may_be_expired);
  // The entitlement of a token's sessions on this server. A null `token` stands for a session
  // without one.
  Entitlement EntitledBy(const LeaseToken* token) const;
  absl::StatusOr<std::string> SignLocal(const LeaseToken& token) const;
  void DropExpired() const;

  const LeaseBookOptions options_;
  const SigningKey own_key_;
  const std::shared_ptr<LeaseMembership::Shared> shared_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_LEASES_LEASE_BOOK_H_
