// Decides who gets which devices of a pool, who waits for them, and who has to give them up.
//
//   Allocator allocator(AllocatorOptions{});
//   Event event;                             // at_ns, and what has happened: a server, a tenant,
//   ... event.mutable_ask()->...;                // ... or a request. const Decision decision =
//   allocator.Apply(event);
//
// It has no clock, does no I/O and draws no random number: what it decides follows from the events
// and their times alone, so a recorded sequence of events gives the same decisions again
// (replay.h).
//
// A request that names a ticket waits when it does not fit. Its sender asks again with that ticket,
// at the time that the decision says, until it is granted; a request that is not asked for any more
// is dropped. Requests that wait are placed by the WaitingLine's order, those that fit first. A
// request that has waited for longer than `patience` gets devices set aside. Nothing else is placed
// on these unless it surely ends before they are all free (EASY back-filling, Lifka, JSSPP 1995,
// with a lease's end as its estimate). Where leases have no end, those that began last are taken to
// end first: running times are long-tailed, so a program that has run for long goes on for long
// (Harchol-Balter and Downey, SIGMETRICS 1996). With `preemption`, leases of lower rank get
// notice and end, if that helps. With `epoch`, leases that tenants have beyond their shares are
// lent: at the end of an epoch they get notice if somebody waits who has less than its share.
//
// A lease that moves to another server has room at both until the move is committed or over. It
// counts for its tenant once.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_ALLOCATOR_H_
#define WARPLINE_SCHEDULER_PLACEMENT_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/placement/eviction.h"
#include "scheduler/placement/fit.h"
#include "scheduler/placement/placement.pb.h"
#include "scheduler/placement/pool.h"
#include "scheduler/placement/quota_tree.h"
#include "scheduler/placement/waiting_line.h"

namespace warpline::placement {

using warpline_placement::Ask;
using warpline_placement::Decision;
using warpline_placement::Event;
using warpline_placement::Place;

struct AllocatorOptions {
  Order order = Order::kSpread;
  // How many requests may wait, of all tenants and of each.
  uint32_t max_waiting = 4096;
  uint32_t max_waiting_of_tenant = 256;
  // How many of them may have devices set aside at a time, and after which wait they get them.
  uint32_t max_reservations = 16;
  // Of the usable devices, how many may be set aside so; one request may always have as many as it
  // wants. They are idle until the last of them is free.
  uint32_t max_reserved_percent = 5;
  absl::Duration patience = absl::Minutes(10);
  // A request that is not asked for again within this time is dropped, and one that was placed and
  // is not picked up is placed no more.
  absl::Duration silence = absl::Seconds(30);
  bool preemption = false;
  absl::Duration notice = absl::Seconds(60);
  // How often what tenants have beyond their shares is offered to those who wait; zero for never.
  absl::Duration epoch = absl::ZeroDuration();
};

// What a tenant should have had and had of it, in milli-GPUs, summed over epochs of which earlier
// ones count less.
struct Standing {
  uint64_t due = 0;
  uint64_t had = 0;
};

// What a request wants on each of its servers, and how many there are.
Want WantOf(const Ask& ask);
uint32_t MembersOf(const Ask& ask);

// Thread-compatible. Events come in the order of their times.
class Allocator {
 public:
  explicit Allocator(AllocatorOptions options) : options_(options) {}

  // Of an ask, the decision says what becomes of it. Every decision may bring notices for leases,
  // and say that leases' time has come: the caller ends those, and tells by a `release` event.
  Decision Apply(const Event& event);

  // Events that, applied to a new Allocator with the same options, give one that decides the same.
  std::vector<Event> Snapshot(int64_t now_ns) const;

  const Pool& pool() const { return pool_; }
  const QuotaTree& quotas() const { return quotas_; }
  const WaitingLine& line() const { return line_; }
  // The leases that are on the move.
  const std::set<std::string>& moves() const { return moves_; }
  // Null for a lease that is not on the move. Otherwise the room that is taken for it, which is no
  // lease of its own. Good until the next event.
  const Allocation* RoomOfMove(const std::string& lease) const;
  // The leases that were beyond their tenants' shares when the latest epoch ended, where everything
  // that is reserved counts as wanted.
  const std::set<std::string>& lent() const { return lent_; }

 private:
  void PutServer(const warpline_placement::Server& server);
  void SetCordon(const warpline_placement::Cordon& cordon, Decision* decision);
  void Restore(const warpline_placement::Lease& lease);
  void Release(const std::string& lease, Decision* decision);
  void RestoreWaiting(const warpline_placement::Waiting& waiting);

  // --- Requests.
  void AnswerAsk(const Ask& ask, Decision* decision);
  absl::Status WhyNotNow(const Want& want) const;
  // What to say of the request of a ticket that is known.
  void AnswerWaiting(Entry* entry, const Ask& ask, Decision* decision);
  void PickUp(Entry* entry, size_t member, const Ask& ask, Decision* decision);
  // What was placed is not there any more: it waits again, in its place.
  void Unplace(Entry* entry, Decision* decision);
  absl::StatusOr<Entry*> Enqueue(const Ask& ask, const Want& want);
  void Withdraw(const std::string& tenant, const std::string& ticket, Decision* decision);
  // Removes the entry, and what there is for it.
  void Drop(uint64_t number, const std::string& why, Decision* decision);

  // --- Room.
  Usage UsageOf(const Site& site, const Want& want, uint32_t sessions) const;
  Usage LeastUsage(const Want& want, uint32_t sessions, uint32_t members) const;
  // Where the request fits now, without or with devices that others have set aside for later.
  std::optional<Site> FindRoom(const Want& want, int64_t lasts_ns) const;
  // Whether its tenant's limits allow it now.
  bool MayHave(const Entry& entry) const;
  // Sites for all members, or none.
  std::vector<Site> FindAll(const Entry& entry);
  // Takes the room for a lease. RESOURCE_EXHAUSTED when a quota is in the way.
  // What it is to have; where it names no memory, as much as it may get.
  Usage ReckonedUsage(const Entry& entry) const;
  // Whether that is within what its tenant can count on.
  bool WithinReserve(const Entry& entry) const;
  absl::StatusOr<Site> Take(const std::string& lease, const Ask& ask, const Want& want, Site site);
  void Give(const std::string& lease);
  bool PlaceEntry(Entry* entry, std::vector<Site> sites, Decision* decision);
  // Places whatever can be placed.
  void Pass(Decision* decision);

  // --- What is set aside.
  void Reserve(Entry* entry, std::vector<Site> sites, int64_t until_ns);
  void Unreserve(Entry* entry);
  void ReserveForThePatient();
  int64_t ExpectedRest(const Allocation& lease) const;
  void ExpectRoom(const ServerState& server, const Want& want, std::vector<int64_t>* expected,
                  std::vector<int64_t>* sure_ns) const;
  std::vector<Site> ChooseReservation(const Entry& entry, int64_t* until_ns) const;
  bool ReservationFits(const Entry& entry) const;
  bool ReservationStands(const Entry& entry) const;

  // --- Leases that have to go.
  Rank RankOf(const Allocation& allocation) const;
  void Preempt(Decision* decision);
  // Why leases get notice.
  struct Why {
    warpline_placement::Cause cause;
    std::string reason;
  };
  // Finds leases of lower rank and gives them notice, if all of them `may_go` together.
  bool PreemptFor(Entry* entry, Rank rank, absl::FunctionRef<Rank(const Allocation&)> rank_of,
                  absl::FunctionRef<bool(const std::vector<std::string>&)> may_go, const Why& why,
                  Decision* decision);
  static warpline_placement::Notice NoticeOfDrain(const std::string& lease,
                                                  const warpline_placement::Cordon& cordon);
  void Notify(warpline_placement::Notice notice, Decision* decision);
  // Takes back the notices for an entry, or for a drained server.
  void Cancel(uint64_t waiting, const std::string& server, const std::string& why,
              Decision* decision);

  // --- Moves.
  void BeginMove(const warpline_placement::Move& move, Decision* decision);
  // FAILED_PRECONDITION when the lease cannot be moved at all.
  absl::StatusOr<Site> FindMoveSite(const Allocation& lease,
                                    const warpline_placement::Move& move) const;
  void TakeMoveRoom(const Allocation& lease, const Place& place, uint64_t number, int64_t since_ns,
                    uint64_t milli_gpus);
  void CommitMove(const std::string& lease, Decision* decision);
  void GiveMoveRoom(const std::string& lease);
  // Ends the moves to a server, and with `from` those of its leases.
  void EndMovesOf(const std::string& server, bool from, const std::string& why, Decision* decision);
  void AddMoves(std::vector<Event>* events) const;
  void RestoreMove(const warpline_placement::Moving& moving);

  // --- Epochs.
  struct EpochView;
  // Once an epoch.
  void EndEpoch(Decision* decision);
  EpochView LookAtEpoch() const;
  // Leases that tenants which had so much have beyond these shares: however many of them go, each
  // tenant keeps its share, with `round_up` less than one lease short of it, and each what is
  // reserved.
  std::set<std::string> Beyond(const std::map<std::string, uint64_t>& had,
                               const std::map<std::string, uint64_t>& shares,
                               bool round_up = false);
  void NoteStandings(const EpochView& view);
  void TakeBack(EpochView* view, Decision* decision);
  bool TakeBackFor(Entry* entry, const EpochView& view, bool burst, bool turn, Decision* decision);

  // --- Time.
  void DropTheSilent(Decision* decision);
  void TellTheDue(Decision* decision);

  int64_t After(absl::Duration wait) const { return now_ns_ + absl::ToInt64Nanoseconds(wait); }
  warpline_placement::Place PlaceOf(const Site& site) const;
  std::optional<Site> SiteAt(const warpline_placement::Place& place) const;

  const AllocatorOptions options_;
  int64_t now_ns_ = 0;
  Pool pool_;
  QuotaTree quotas_;
  WaitingLine line_;
  std::set<std::string> up_;
  std::map<std::string, warpline_placement::Cordon> cordons_;
  std::map<std::string, warpline_placement::Notice> notices_;  // By lease.
  std::set<uint64_t> placed_;                                  // Entries that wait to be picked up.
  std::set<std::string> moves_;                                // Leases.
  std::set<uint64_t> reserved_;                // Entries that have something set aside.
  int64_t epoch_ends_ns_ = 0;                  // 0 before the first.
  std::map<std::string, Standing> standings_;  // By tenant.
  std::set<std::string> lent_;
  uint64_t next_lease_ = 1;
  uint64_t next_waiting_ = 1;
};

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_ALLOCATOR_H_
