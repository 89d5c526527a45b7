// Decides which tenant may hold what of the pool's devices, and where.
//
// A tenant's process asks for a lease and gets a server's address and a token for it. The lease
// lives while its holder renews it, or while a server reports sessions of it. Servers learn from
// the answers to their reports which leases to end; the scheduler itself opens no connections.
#ifndef WARPLINE_SCHEDULER_SCHEDULER_H_
#define WARPLINE_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "common/log/keyed_log_budget.h"
#include "common/mutex.h"
#include "lease/token.h"
#include "proto/admin.pb.h"
#include "proto/leases.pb.h"
#include "proto/scheduler.pb.h"
#include "scheduler/audit_anchors.h"
#include "scheduler/callers.h"
#include "scheduler/ended_news.h"
#include "scheduler/moves.h"
#include "scheduler/placement/allocator.h"
#include "scheduler/pool_allocator.h"
#include "scheduler/pool_snapshot.h"
#include "scheduler/renewals.h"
#include "scheduler/reported_sessions.h"
#include "scheduler/scheduler_log.h"
#include "scheduler/server_instance.h"
#include "scheduler/service_accounts/account_gate.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/store.h"
#include "scheduler/tenant_rates.h"

namespace warpline::scheduler {

// How long an ended lease is remembered, so that its sessions can be told why it ended.
inline constexpr absl::Duration kLeaseAfterlife = absl::Hours(1);

struct SchedulerOptions {
  // Who gets which devices, who waits, and who has to give way.
  placement::AllocatorOptions placement;
  // Where decisions are recorded; none without a folder.
  placement::DecisionLogOptions decisions;
  // A lease that is not renewed for this time ends with the server's next report that names no
  // session of it.
  absl::Duration lease_ttl = absl::Seconds(60);
  // Servers report this often, and count as lost when nothing came for `lost_after`.
  absl::Duration report_interval = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(5);
  // A lost server's leases are kept for this long; then the server is forgotten and they run out.
  absl::Duration forget_after = absl::Hours(1);
  // Limits for the whole pool.
  size_t max_leases = 65536;
  size_t max_servers = 4096;
  // How often each tenant may ask for leases and renew them: in the long run, and at once.
  double tenant_calls_per_second = 50;
  double tenant_calls_at_once = 500;
  std::string operator_credential;
  // The hash of another credential that is the operator's too; empty for none.
  std::string operator_hash;
  // The scheduler does not lead: it says what its store has, and takes no change.
  bool only_reads = false;
  // What takes ServiceAccount tokens as credentials; null where nothing does. Schedulers that
  // follow each other in one process have the same.
  std::shared_ptr<AccountGate> accounts;
  // Where it is recorded that a credential was refused; null for nowhere. It outlives the
  // scheduler.
  audit::AuditLog* audit = nullptr;
  // A clock that is not set back or forward while the scheduler runs: SteadyNow().
  std::function<absl::Time()> clock;
};

// Counts for metrics.
struct SchedulerCounts {
  uint64_t tenants = 0, servers_up = 0, servers_lost = 0, leases = 0, leased_bytes = 0;
  uint64_t capacity_bytes = 0, sessions = 0;
  uint64_t waiting = 0, preempted = 0;
  uint64_t granted = 0, refused = 0, expired = 0, revoked = 0, rejected = 0;
  uint64_t moved = 0, moves_failed = 0;
  uint64_t duplicates = 0;  // Reports of servers by whose name another one reports.
};

// What a tenant has, for metrics.
struct TenantCount {
  std::string name;
  uint64_t leases = 0, leased_bytes = 0, quota_bytes = 0, reserved_bytes = 0, waiting = 0;
};

// Thread-safe. `local` says that a request comes from the scheduler's own host. Requests are not
// trusted: one that is too long or malformed gets INVALID_ARGUMENT, and one whose sender has no
// right to it UNAUTHENTICATED. UNAVAILABLE means that the state could not be written.
// Sums over the leases of a tenant, a server or a slice.
struct LeaseTotals {
  uint32_t leases = 0;
  uint64_t bytes = 0;
  uint32_t max_sessions = 0;
  uint32_t sessions = 0;  // Where they are known.

  void Add(const LeaseRecord& lease, uint32_t sessions_of_it = 0) {
    ++leases;
    bytes += lease.total_bytes();
    max_sessions += lease.max_sessions;
    sessions += sessions_of_it;
  }
};

class Scheduler {
 public:
  // Goes on from what the store holds. Returns an error, which names the file and says what to do,
  // when the store cannot be read or written: a scheduler that forgot its leases would give the
  // devices out twice.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(SchedulerOptions options,
                                                           std::unique_ptr<Store> store,
                                                           KeyRing keys);
  // Writes what was still to be written.
  ~Scheduler();

  // RESOURCE_EXHAUSTED for a tenant's limit, that of its calls included, for more than its slice
  // has, or a full pool, NOT_FOUND for an unknown device or slice, PERMISSION_DENIED for a slice
  // that the tenant may not have. With `by_sessions` the lease lives by its sessions alone and will
  // not be renewed. A request with a ticket waits where it would otherwise be refused for something
  // that may change: the reply has `waiting`, and the sender asks again. `peer`, here and below,
  // names the sender in the log and in the audit where its credential does not hold.
  absl::StatusOr<warpline_internal::LeaseReply> Acquire(
      const warpline_internal::AcquireRequest& request, bool by_sessions, bool local,
      const CertificateHolder& holder = {}, const std::string& peer = "");
  // NOT_FOUND for a lease that is over, FAILED_PRECONDITION with the reason for one that was ended,
  // RESOURCE_EXHAUSTED for a tenant that calls too often, UNAUTHENTICATED for a token that is for
  // another certificate than the one that came `by` it. Within a quarter of the leases' ttl of a
  // renewal the answer to the same holder is the same.
  absl::StatusOr<warpline_internal::LeaseReply> Renew(const std::string& token,
                                                      const CertificateHolder& by = {});
  absl::Status Release(const std::string& token, const CertificateHolder& by = {});
  // Ends waiting. OK also for a ticket that nobody waits with.
  absl::Status Withdraw(const warpline_internal::WithdrawRequest& request, bool local,
                        const std::string& peer = "");
  // ALREADY_EXISTS, saying what to do, while another process reports by the server's name.
  absl::StatusOr<warpline_internal::ReportReply> Report(
      const warpline_internal::ServerReport& report, bool local);
  // A lease's move to another server (proto/scheduler.proto). The first is for the operator alone,
  // and returns NOT_FOUND for what is not known, FAILED_PRECONDITION for what cannot be, and
  // RESOURCE_EXHAUSTED without room. The others are for the server to which the lease moves, and
  // for the one from which it does: UNAUTHENTICATED for a wrong credential or ticket.
  absl::StatusOr<warpline_internal::MoveReply> Move(const warpline_internal::MoveRequest& request);
  absl::StatusOr<warpline_internal::MoveCommitReply> CommitMove(
      const warpline_internal::MoveCommit& commit, bool local);
  absl::StatusOr<warpline_internal::MoveEndReply> EndMove(const warpline_internal::MoveEnd& end,
                                                          bool local);
  // Takes sessions for which the server's latest report had no room. Errors as
  // ReportedSessions::Add(), INVALID_ARGUMENT as CheckSessions().
  absl::Status ReportSessions(const warpline_internal::SessionsReport& more, bool local);

  // The following are for the operator alone.
  absl::StatusOr<warpline_internal::TenantReply> PutTenant(
      const warpline_internal::TenantRequest& request);
  absl::Status RemoveTenant(const warpline_internal::TenantRequest& request);
  absl::Status Revoke(const warpline_internal::RevokeRequest& request);
  // Gives a server a credential. With another one the operator also takes its audit as it is,
  // whatever it has lost. ALREADY_EXISTS when a new one is asked for and it has one,
  // NOT_FOUND when another one is asked for and it has none.
  absl::StatusOr<warpline_internal::ServerReply> PutServer(
      const warpline_internal::ServerRequest& request);
  // Removes the server and ends its leases. NOT_FOUND when it is unknown.
  absl::Status RemoveServer(const warpline_internal::ServerRequest& request);
  // Makes or changes a slice. Leases that were made of it stay as they are. INVALID_ARGUMENT for
  // what is no slice, ALREADY_EXISTS and NOT_FOUND as for tenants.
  absl::Status PutSlice(const warpline_internal::SliceRequest& request);
  // FAILED_PRECONDITION while a tenant has it.
  absl::Status RemoveSlice(const warpline_internal::SliceRequest& request);
  // The lists are told in parts, as `page` asks. RESOURCE_EXHAUSTED for what is too long for a
  // caller that knows no parts.
  absl::StatusOr<warpline_internal::SliceList> Slices(const std::string& credential,
                                                      const warpline_internal::Page& page = {});
  // NOT_FOUND for a server that has neither registered nor a credential.
  absl::Status CordonServer(const warpline_internal::CordonRequest& request);
  absl::StatusOr<warpline_internal::TenantList> Tenants(const std::string& credential,
                                                        const warpline_internal::Page& page = {});
  absl::StatusOr<warpline_internal::LeaseList> Leases(const std::string& credential,
                                                      const warpline_internal::Page& page = {});
  absl::StatusOr<warpline_internal::ServerList> Servers(const std::string& credential,
                                                        const warpline_internal::Page& page = {});
  // Returns the sessions of all servers and their devices, as they were last reported; to a tenant
  // that shows its credential, its own sessions alone. `name` is the scheduler's.
  absl::StatusOr<warpline_internal::StatReply> Stat(const warpline_internal::StatRequest& request,
                                                    const std::string& name,
                                                    const std::string& peer = "");

  // Whose credential it is, shown to the page, which is what the log and the audit call the peer.
  // UNAUTHENTICATED, which is counted as rejected, when it is nobody's.
  absl::StatusOr<Viewer> ViewerOf(const std::string& credential);
  // The pool as it is, for the viewers' eyes only as far as they may see it (page/pool_view.h).
  absl::StatusOr<PoolSnapshot> Snapshot();

  // Those of the store.
  uint64_t Confirmations();
  absl::Status ConfirmSince(uint64_t mark);
  uint64_t Epoch();

  // Ends what has run out, and makes new keys. Call it every second or so.
  void Housekeep();

  SchedulerCounts Counts();
  // Of `most` tenants, those that have most leased first.
  std::vector<TenantCount> TenantCounts(size_t most);

 private:
  struct LiveServer {
    absl::Time heard;
    // When it last reported and all of that was kept: which leases have sessions is known since.
    absl::Time told_sessions = absl::InfinitePast();
    ServerInstance instance;
    bool lost = true;  // For the log; true until a report has come.
    absl::Time lost_at;
    warpline_internal::ServerReport report;  // The latest, without credential and sessions.
    ReportedSessions sessions;
    EndedNews ended;
    bool placed_on = false;  // As the allocator was told.
    // While it leaves: how often it was tried to move a lease of it.
    std::map<std::string, int> move_tries;
  };

  Scheduler(SchedulerOptions options, std::unique_ptr<Store> store, KeyRing keys,
            std::unique_ptr<placement::RecordedAllocator> allocator);
  // Reads the store. Called once, before anything else.
  absl::Status TakeState();

  absl::Time Now() const { return options_.clock(); }
  // Longer than tokens are good for.
  absl::Duration Afterlife() const { return std::max(kLeaseAfterlife, options_.lease_ttl); }
  warpline_internal::Server ListedServer(const ServerRecord& record, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The parts of Report() that concern leases: those that have sessions, that fell idle, and that
  // end soon.
  absl::Status KeepLeases(const warpline_internal::ServerReport& report, absl::Time now,
                          ReportAnswer* answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndIdleLeases(const warpline_internal::ServerReport& report, absl::Time now,
                             LiveServer* live, const ReportAnswer& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellEnding(const warpline_internal::ServerReport& report, absl::Time now,
                  ReportAnswer* answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsUp(const LiveServer& server, absl::Time now) const;
  // Whether the server has said which sessions it has since the lease expired.
  bool KnowsSessions(const LiveServer& server, const LeaseRecord& lease, absl::Time now) const;
  // UNAUTHENTICATED for one who is none, also if `caller` says so.
  absl::StatusOr<TenantRecord> TenantOf(const absl::StatusOr<Caller>& caller, bool local)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckServer(const std::string& name, const std::string& credential, bool local)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckOperator(const std::string& credential) const;
  // Fills the allocator with what the store has.
  absl::Status TakePool(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the allocator of servers that have come up or are up no more.
  void RefreshServers(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PlaceOn(const std::string& name, LiveServer* server, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Logs what the allocator says of leases that have to end, and has their holders told.
  void TellNotices(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndDueLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  warpline_internal::LeaseReply WaitingReply(const warpline_internal::AcquireRequest& request,
                                             const std::string& tenant,
                                             const warpline_placement::Decision& decision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets all but the latest ended leases of a tenant.
  absl::Status ForgetEnded(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A lease of the slice, whose name is empty for none, or none when the request waits: `decision`
  // says why.
  absl::StatusOr<std::optional<LeaseRecord>> Choose(
      const warpline_internal::AcquireRequest& request, const TenantRecord& tenant,
      const SliceRecord& slice, bool by_sessions, warpline_placement::Decision* decision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // As Choose(), of the slice that the request names or the tenant's first one.
  absl::StatusOr<std::optional<LeaseRecord>> ChooseOfSlice(
      const warpline_internal::AcquireRequest& request, const TenantRecord& tenant,
      bool by_sessions, warpline_placement::Decision* decision) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the token of the lease, without the end that a notice sets.
  LeaseToken TokenFor(const LeaseRecord& lease, const TenantRecord& tenant,
                      const CertificateHolder& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The tenant of an active lease, with no more than the defaults when there are no tenants.
  TenantRecord TenantNamed(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<warpline_internal::LeaseReply> ReplyFor(const LeaseRecord& lease,
                                                         const TenantRecord& tenant,
                                                         const CertificateHolder& holder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the token that of the one that came `by` it.
  absl::StatusOr<LeaseToken> OpenTokenOfOurs(const std::string& token, const CertificateHolder& by)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<LeaseRecord> FindLease(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // --- Moves.
  // Returns OK if the lease may move to the server that the request names, if any. Replaces
  // the beginning of a device's UUID by the UUID.
  absl::Status CheckTarget(const LeaseRecord& lease, absl::Time now,
                           warpline_internal::MoveRequest* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<warpline_internal::MoveReply> BeginMove(const LeaseRecord& lease,
                                                         warpline_internal::MoveRequest request,
                                                         absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<warpline_internal::MoveReply> AskForMove(
      const warpline_internal::MoveRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::string> TicketFor(LeaseRecord lease, const LeaseMove& move)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<LeaseToken> OpenTicket(const warpline_internal::MoveCommit& commit, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns FAILED_PRECONDITION if the move of this ticket cannot be committed now.
  absl::Status CheckCommit(const LeaseToken& ticket, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<warpline_internal::MoveCommitReply> TokenAtTarget(const LeaseRecord& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The move that is under way fails.
  void FailMove(const std::string& lease, const std::string& why, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes note of the moves that the allocator has ended.
  void NoteEndedMoves(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins to move the leases of a server that leaves, as many as may be on the move at a time.
  // Returns how many are on the move or will be.
  uint32_t MoveAway(const warpline_internal::ServerReport& report, absl::Time now, LiveServer* live)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellMoves(const std::string& server, absl::Time now, ReportAnswer* answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if the server has had the lease so lately that it cannot know yet that the lease
  // has moved.
  bool MayStillReport(const warpline_internal::ServerReport& report, const LeaseRecord& lease,
                      absl::Time now) const;
  void HousekeepMoves(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CountCall(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Revokes the active leases of a tenant and of all tenants below it.
  absl::Status RevokeTenant(const std::string& name, const EndReason& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndLease(LeaseRecord lease, LeaseState state, const EndReason& reason,
                        bool by_operator = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckInstance(const warpline_internal::ServerReport& report, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NoteServer(const warpline_internal::ServerReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NoteAuditHead(const warpline_internal::ServerReport& report, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndTrials() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HousekeepLeases(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HousekeepServers(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The number of sessions of each lease, as reported.
  std::map<std::string, uint32_t> SessionsByLease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SchedulerOptions options_;
  Mutex mu_;
  const std::unique_ptr<Store> store_ ABSL_PT_GUARDED_BY(mu_);
  KeyRing keys_ ABSL_GUARDED_BY(mu_);
  // Both by name, with an entry for every server of the store.
  std::map<std::string, LiveServer> servers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ServerRecord> records_ ABSL_GUARDED_BY(mu_);
  SchedulerCounts counts_ ABSL_GUARDED_BY(mu_);
  TenantRates rates_ ABSL_GUARDED_BY(mu_);
  Renewals renewals_ ABSL_GUARDED_BY(mu_);
  PoolAllocator pool_ ABSL_GUARDED_BY(mu_);
  MoveTable moves_ ABSL_GUARDED_BY(mu_);
  AuditAnchors anchors_ ABSL_GUARDED_BY(mu_);
  Callers callers_;
  KeyedLogBudget log_;  // By TenantKey() and ServerKey().
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SCHEDULER_H_
