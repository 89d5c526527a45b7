// Decides whose memory is on the devices while sessions have more than fits.
//
// A session that needs room waits in line, by priority and then by arrival. A nice session (nice
// values of clients, common/niceness.h) stands as if it had come later. Room is made by moving
// other sessions' memory to the host: first that of sessions without work, then that of sessions
// whose turn is over. A turn lasts several times as long as the moves that it costs, so that most
// of the time goes into work. Gdev (Kato et al., USENIX ATC 2012) chooses victims by priority, and
// keeps some memory free by moving ahead of need, as this class does.
//
//   residency.Await({.session = 7, .places = {{device, bytes}}}, [](absl::Status room) { ... });
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_RESIDENCY_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_RESIDENCY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

// The part of one device that a session has at this moment. A session that is not open cannot be
// moved, and is `moving`.
struct Resident {
  uint64_t session = 0;
  uint64_t bytes = 0;  // On the device, and can be moved.
  // On the device or asked for of it, also while they are moved.
  uint64_t held_bytes = 0;
  uint64_t staying_bytes = 0;  // The part of them that is shared, which is never moved.
  // Empty, or why its memory cannot be moved.
  std::string why_not;
  bool moving = false;     // It is being moved, or on its way back.
  bool in_flight = false;  // Some of its commands are not complete.
  bool waits = false;      // It cannot go on before it gets more memory.
  uint64_t progress = 0;   // The number of the last command that is complete.
  int priority = 0;
  uint32_t weight = 1;
  uint32_t niceness = 0;
  uint32_t score = 0;   // The operator's policy's: what scores most goes first.
  bool spared = false;  // By that policy.
};

// The books of a device.
struct DeviceRoom {
  uint64_t free_bytes = 0;     // A request could have them now.
  uint64_t leaving_bytes = 0;  // They are given back, and free in a moment.
};

// The sessions of a lease, and what they may have on each device at a time.
struct LeaseLimit {
  std::string lease;   // Different for each session without one.
  uint64_t bytes = 0;  // 0 for no limit.
};

// The memory that the sessions of a device have, and may have. With a lease's limit for the
// capacity, this also describes the part of a device that a lease has.
struct GrowthFacts {
  uint64_t capacity_bytes = 0;
  uint64_t limit_bytes = 0;    // All sessions may have so much together.
  uint64_t host_bytes = 0;     // The host's memory for what is away.
  uint64_t total_bytes = 0;    // All of them have so much, there and away.
  uint64_t fixed_bytes = 0;    // Sessions that cannot be moved have so much on the device.
  uint64_t own_bytes = 0;      // The session that is to grow has so much that can be moved.
  uint64_t largest_bytes = 0;  // The largest other session has so much that can be moved.
  bool stays = false;          // The memory that is added cannot be moved.
};
// Returns the bytes by which a session may grow, so that any session can always be brought back.
// All of a session has to fit beside what cannot be moved. While a session leaves, the one that
// comes is still on the host.
uint64_t MostGrowth(const GrowthFacts& facts);
// Returns what is needed at least: the largest session that can be moved, and what cannot.
uint64_t NeededBeside(const GrowthFacts& facts);
// Returns true if that fits.
bool FitsBesideFixed(const GrowthFacts& facts);

// Why a session's memory was moved, and for which session.
struct Eviction {
  enum class Reason { kIdle, kTurnOver, kAhead };
  uint64_t session = 0;
  uint64_t wanted_by = 0;  // 0: it is moved ahead of need.
  int device = 0;
  Reason reason = Reason::kIdle;
  uint64_t bytes = 0;
  absl::Duration turn;  // How long the session was on the device, as far as is known.
  absl::Duration took;  // How long the move took.
};

// The sessions and devices of a server. Called on the control loop.
class ResidencyHost {
 public:
  virtual ~ResidencyHost() = default;
  virtual std::vector<Resident> ResidentsOf(int device) RUNS_ON(control_loop) = 0;
  // Asks the operator's policy about those that may be moved for `wanted_by` (0: for nobody).
  virtual void Score(uint64_t wanted_by, std::vector<Resident>* residents)
      RUNS_ON(control_loop) = 0;
  virtual DeviceRoom RoomOf(int device) RUNS_ON(control_loop) = 0;
  virtual LeaseLimit LimitOf(uint64_t session) RUNS_ON(control_loop) = 0;
  // Calls Paging::Out() of the session.
  virtual void MoveOut(uint64_t session, absl::Duration deadline,
                       std::function<void(absl::Status)> done) RUNS_ON(control_loop) = 0;
  virtual void OnEvicted(const Eviction& eviction, const absl::Status& status)
      RUNS_ON(control_loop) = 0;
};

struct ResidencyOptions {
  // True if sessions have more than the devices, so that they are moved for each other. Otherwise
  // they wait for room. Needs `keeps_limits`.
  bool evicts = false;
  // True if sessions of a lease are moved for each other, so that its limit holds.
  bool keeps_limits = false;
  int devices = 1;
  // Less free memory than this is made more, by moving sessions without work ahead of need.
  uint64_t low_water_bytes = 0;
  // A turn lasts at least `least_turn`, and `moves_per_turn` times as long as the session's moves.
  absl::Duration least_turn = absl::Milliseconds(100);
  int moves_per_turn = 8;
  // A session without work for this time counts as idle.
  absl::Duration idle_after = absl::Milliseconds(100);
  // A session has to be idle for this time before its memory is moved ahead of need.
  absl::Duration idle_ahead = absl::Seconds(2);
  // How long a session's work may take to come to rest.
  absl::Duration rest_deadline = absl::Seconds(2);
  // SteadyNow(), but in tests.
  std::function<absl::Time()> now = nullptr;
};

class Residency {
 public:
  // Above this share of the time that goes into moves, requests that would raise it are refused.
  static constexpr double kThrashing = 0.3;
  // Turns are made so many times as long before that.
  static constexpr int kMostStretch = 8;
  // How long a session has to take the room that was made for it.
  static constexpr absl::Duration kPromise = absl::Seconds(5);
  // For each step of niceness, a session stands in line as if it had come so much later.
  static constexpr absl::Duration kLaterPerNiceness = absl::Milliseconds(250);

  // All are borrowed.
  Residency(ResidencyOptions options, Timers* timers, ResidencyHost* host);
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Keeps memory free from now on, where it may. Once.
  void Start() RUNS_ON(control_loop);

  struct Want {
    uint64_t session = 0;
    std::map<int, uint64_t> bytes;  // By device.
    // Where memory comes back, the part that it waits for if the device can never have room for
    // all: without the request that waits, whose size is the client's choice. Empty for none.
    std::map<int, uint64_t> least = {};
    int priority = 0;
    uint32_t weight = 1;
    uint32_t niceness = 0;
    // It asks for more than it has; otherwise its memory is to come back.
    bool grows = false;
  };
  // Calls `again` once, not from within: with OK when there seems to be room, or with
  // RESOURCE_EXHAUSTED and the reason when nothing is left that could make room, which concerns
  // requests for more alone. The room is then kept for the session for kPromise, or until it waits
  // again, which it does in its former place, or StopWaiting() or OnCame(). A session waits for one
  // thing at a time: the former one is forgotten.
  void Await(Want want, std::function<void(absl::Status)> again) RUNS_ON(control_loop);
  // The session does not wait any more, or has what it waited for.
  void StopWaiting(uint64_t session) RUNS_ON(control_loop);
  // The session's memory is on the device, `took` after it was called back.
  void OnCame(uint64_t session, absl::Duration took) RUNS_ON(control_loop);
  // The session is over.
  void Forget(uint64_t session) RUNS_ON(control_loop);
  // A lease's limit is another one. Where its sessions have more, some are moved to the host.
  void OnLimitChanged() RUNS_ON(control_loop) { Schedule(absl::ZeroDuration()); }

 private:
  struct Waiting {
    Want want;
    absl::Time since;
    std::function<void(absl::Status)> again;
  };
  // The history of a session on its devices.
  struct Turn {
    absl::Time began;
    absl::Time active;  // When it was last seen to have work.
    uint64_t progress = 0;
    // Its last moves; zero if it was not moved yet.
    absl::Duration out;
    absl::Duration in;
    // When it left as one without work, and how long it now has to be without.
    absl::Time left_idle = absl::InfinitePast();
    absl::Duration idle_after;
    // It could not be moved, and is not tried again before.
    absl::Time not_before = absl::InfinitePast();
    absl::Duration back_off;
    // The room that is kept for it, since when it waited for that, and until when it is kept.
    std::map<int, uint64_t> promised;
    // Room beyond what it waits for, since it could not take what the books said to be there.
    uint64_t extra_bytes = 0;
    absl::Time promised_since;
    absl::Time promised_until = absl::InfinitePast();
  };
  struct Device {
    bool evicting = false;
    double bytes_per_second = 10e9;  // It is measured.
    int stretch = 1;                 // Turns are so many times as long.
    absl::Time window_began;
    absl::Duration moved;  // In this window.
    double share = 0;      // The part of the former window that went into moves.
  };
  struct Victim {
    Resident resident;
    Eviction::Reason reason = Eviction::Reason::kIdle;
    absl::Duration idle;
  };

  // Looks after `delay`, or sooner where that was asked for before.
  void Schedule(absl::Duration delay) RUNS_ON(control_loop);
  void Look() RUNS_ON(control_loop);
  // Sees which sessions have work.
  void Observe(const std::vector<Resident>& residents) RUNS_ON(control_loop);
  // Answers the first session in line that can be answered. Returns false if there is none.
  bool Serve() RUNS_ON(control_loop);
  // Has a session that cannot ever have all that it waits for wait for the least of it. Returns
  // false if there is less.
  static bool SettleForLess(Want* want);
  void Answer(std::vector<Waiting>::iterator waiting, const absl::Status& status)
      RUNS_ON(control_loop);
  // The bytes of the device that are kept for other sessions than `session`.
  uint64_t PromisedToOthers(uint64_t session, int device) const RUNS_ON(control_loop);
  // Returns true if the limit of its lease has room for `want`. Otherwise moves a session of the
  // lease, where one may be moved now. RESOURCE_EXHAUSTED if that could never make enough room.
  absl::StatusOr<bool> MakeRoomInLease(const Want& want, const LeaseLimit& limit)
      RUNS_ON(control_loop);
  absl::StatusOr<bool> MakeRoomInLease(const Want& want, const LeaseLimit& limit, int device,
                                       uint64_t bytes) RUNS_ON(control_loop);
  // Returns what the sessions of the lease have of the device or were promised, without `session`.
  uint64_t HeldByOthers(const std::vector<Resident>& residents, const LeaseLimit& limit,
                        uint64_t session, int device) RUNS_ON(control_loop);
  // Moves sessions of leases that have more than their limit. Returns true while there are such.
  bool KeepLimits(int device, const std::vector<Resident>& residents) RUNS_ON(control_loop);
  // Moves a session's memory, where one may be moved now, so that `want` gets its `bytes` of the
  // device and `more` is left. Returns false if there is none that it could ever move, and
  // RESOURCE_EXHAUSTED if the device does not have `bytes` even without all that can be moved.
  absl::StatusOr<bool> MakeRoom(const Want& want, int device, uint64_t bytes, uint64_t more)
      RUNS_ON(control_loop);
  void KeepFree(int device) RUNS_ON(control_loop);
  // Returns the best victim for `want`, or for nobody if that is null, among the sessions that may
  // be moved now.
  std::optional<Victim> Choose(const std::vector<Resident>& residents, const Want* want, int device)
      RUNS_ON(control_loop);
  // Notes that a session that was without work came back, maybe too soon.
  void JudgeReturn(Turn* turn) RUNS_ON(control_loop);
  void Evict(int device, const Victim& victim, uint64_t wanted_by) RUNS_ON(control_loop);
  void OnMoved(Eviction eviction, absl::Time began, const absl::Status& status)
      RUNS_ON(control_loop);
  // How long the resident may stay once it is there, with others waiting.
  absl::Duration TurnLength(const Resident& resident, const Turn& turn, const Device& device) const
      RUNS_ON(control_loop);
  // Notes that so much of the device's time went into a move.
  void CountMove(Device* device, absl::Duration took) RUNS_ON(control_loop);
  void CloseWindow(Device* device) RUNS_ON(control_loop);

  const ResidencyOptions options_;
  Timers* const timers_;
  ResidencyHost* const host_;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(control_loop);  // In the order of their service.
  std::map<uint64_t, Turn> turns_ ABSL_GUARDED_BY(control_loop);
  std::vector<Device> devices_ ABSL_GUARDED_BY(control_loop);
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
  absl::Time due_ ABSL_GUARDED_BY(control_loop) = absl::InfiniteFuture();
  bool looking_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_RESIDENCY_H_
