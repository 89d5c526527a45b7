// The moves of leases to other servers, as the scheduler knows them: those that are under way, and
// what became of the latest one of each lease.
#ifndef WARPLINE_SCHEDULER_MOVES_H_
#define WARPLINE_SCHEDULER_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace warpline::scheduler {

// A move that the servers have not finished by then is over.
inline constexpr absl::Duration kMoveDeadline = absl::Minutes(10);
// How long it is remembered what became of a move.
inline constexpr absl::Duration kMoveMemory = absl::Hours(1);
// How many leases of one server may be on the move at a time.
inline constexpr size_t kMostMovesFrom = 8;
// How often it is tried to move a lease away from a server that leaves.
inline constexpr int kMostMoveTries = 3;
// How many moves are remembered; the ones that were over first are forgotten first.
inline constexpr size_t kMostMoves = 4096;

struct LeaseMove {
  enum class State { kMoving, kMoved, kFailed };
  uint64_t number = 0;  // Its ticket's (LeaseToken::move).
  std::string lease = {};
  std::string from = {};
  std::string to = {};
  std::string device = {};  // At `to`.
  std::string ticket = {};
  absl::Time deadline = absl::InfinitePast();
  State state = State::kMoving;
  std::string why = {};  // Why it failed.
  uint32_t sessions = 0;
  uint64_t bytes = 0;
  absl::Time over = absl::InfiniteFuture();
};

// Thread-compatible. Holds one move of each lease.
class MoveTable {
 public:
  // Returns the latest move of the lease, or null. Good until the next change.
  const LeaseMove* Find(const std::string& lease) const;
  // Returns the move of the lease that is under way, or null. Good until the next change.
  const LeaseMove* UnderWay(const std::string& lease) const;
  // The leases that move away from the server now.
  const std::set<std::string>& From(const std::string& server) const;
  // The leases whose moves have passed their deadline.
  std::vector<std::string> Late(absl::Time now) const;

  // Adds a move, in place of the latest one of its lease, which must not be under way.
  void Begin(LeaseMove move);
  // A move that is under way is over. No-op where there is none.
  void Moved(const std::string& lease, uint32_t sessions, uint64_t bytes, absl::Time now);
  void Failed(const std::string& lease, const std::string& why, absl::Time now);
  // Forgets moves that were over for kMoveMemory.
  void Forget(absl::Time now);

 private:
  LeaseMove* Finish(const std::string& lease, absl::Time now);

  std::map<std::string, LeaseMove> moves_;
  std::map<std::string, std::set<std::string>> under_way_;  // Leases, by server.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_MOVES_H_
