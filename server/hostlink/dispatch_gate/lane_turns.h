// The lane's side of dispatch: asked before a command is issued to an engine, told what was issued
// and what is complete.
//
//   LaneTurns turns(gates, device);
//   if (turns.IsFree(engine, bytes)) <issue, and say nothing>
//   if (!turns.MayIssue(engine)) ...              // Tried again at the lane's next look.
//   <issue>
//   turns.OnIssued(engine, ticket, bytes);
//   ...
//   turns.OnRetired(ticket);
//
// While nobody else has the device, MayIssue() is one load of a line that stays in the lane's
// cache, and OnIssued() counts in the lane's own memory; the shared line is written only where the
// lane begins to have work in flight, or has none left. Nothing here is a system call, takes a
// lock, or waits.
//
// While somebody else has the device and does nothing, the lane keeps no more than 16 ms of work
// ahead, for which others would have to wait. While others wait, it issues no more than what it
// takes to keep the engine busy, and nothing that would begin after its turn, so that little is in
// flight when the turn ends: XSched's first level (Shen et al., OSDI 2025), with a threshold in
// time and not in commands. While somebody more urgent is expected (Grant::Brief) that is less
// still, or one command. The lane also issues no copy behind kernels of its own that are not
// complete, nor a kernel behind copies: that would have one engine for as long as it waits for the
// other.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_LANE_TURNS_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_LANE_TURNS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "proto/command_lists.h"
#include "proto/devices.h"
#include "server/hostlink/dispatch_gate/free_copies.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// What of a session's page its lanes share: thread-safe.
class SessionGates {
 public:
  // By MonotonicNs(), or by a test's clock.
  using Clock = int64_t (*)();

  // `share` is the session's part of its device's multiprocessors, in thousandths; null where
  // sessions do not divide them.
  explicit SessionGates(std::unique_ptr<DispatchPage> page, Clock clock = &MonotonicNs,
                        std::shared_ptr<const std::atomic<uint32_t>> share = nullptr)
      : page_(std::move(page)), clock_(clock), share_(std::move(share)) {}

  DeviceSlots& device(size_t device) const { return page_->device(device); }
  int64_t now_ns() const { return clock_(); }
  // Of an engine that copies.
  FreeCopies& free_copies(size_t device, Engine engine) const {
    return free_copies_[device][EngineIndex(engine)];
  }
  uint32_t share() const { return share_ == nullptr ? 0 : share_->load(std::memory_order_relaxed); }
  // Code is about to be loaded onto a device, or that is over. Each that begins ends.
  void NoteLoad(size_t device, bool begins) const {
    WorkerLine& line = page_->device(device)[EngineIndex(Engine::kCompute)].worker;
    (begins ? line.loads_begun : line.loads_ended).fetch_add(1, std::memory_order_release);
  }

 private:
  const std::unique_ptr<DispatchPage> page_;
  const Clock clock_;
  const std::shared_ptr<const std::atomic<uint32_t>> share_;
  mutable std::array<std::array<FreeCopies, kEngines>, kMaxSessionDevices> free_copies_;
};

// One lane's. Thread-compatible: it belongs to whoever has the lane's turn.
class LaneTurns {
 public:
  // How far ahead of the device a lane issues while somebody more urgent is expected, while others
  // wait, and while others might come.
  static constexpr int64_t kBriefAheadNs = 300'000;
  static constexpr int64_t kAheadNs = 1'000'000;
  static constexpr int64_t kSharedAheadNs = 16'000'000;

  // `gates` is borrowed; null where nothing is dispatched. `device` is the session's number of it.
  LaneTurns(const SessionGates* gates, size_t device);
  // Takes back what the lane has said of itself.
  ~LaneTurns() { Leave(); }
  LaneTurns(const LaneTurns&) = delete;
  LaneTurns& operator=(const LaneTurns&) = delete;

  // Whether a copy of so many bytes is too small to be dispatched, and few like it were of late:
  // then it is issued without a turn, and OnIssued() is not told. 0 bytes for a kernel.
  bool IsFree(Engine engine, uint64_t bytes) {
    if (bytes == 0 || bytes >= FreeCopies::kSmallBytes || slots_ == nullptr) return false;
    // While nobody else has the device, nothing is counted.
    return slot(engine).grant().open() || IsFreeBesideOthers(engine, bytes);
  }
  // Whether a command of this engine may be issued now. kNothing always may.
  bool MayIssue(Engine engine) {
    if (slots_ == nullptr || engine == Engine::kNothing) return true;
    const Grant grant = (*slots_)[EngineIndex(engine)].grant();
    if (grant.open() && limited_ == Engine::kNothing) return true;
    return Ask(engine, grant);
  }
  // A command that may be issued is about to be, which counts as work in flight: the driver may
  // take its time with it, as it does with a kernel's first launch, for which it loads code. Either
  // OnIssued() or OnNotIssued() follows.
  void OnIssuing(Engine engine) {
    if (slots_ == nullptr || engine == Engine::kNothing) return;
    if (in_flight(engine).commands == 0) BeginIssuing(engine);
  }
  // It could not be issued yet.
  void OnNotIssued() {
    if (issuing_ != Engine::kNothing) EndIssuing();
  }
  // A command was issued, or a part of it; `ticket` grows from command to command. `bytes` are
  // those of a copy.
  void OnIssued(Engine engine, uint64_t ticket, uint64_t bytes) {
    if (slots_ == nullptr || engine == Engine::kNothing) return;
    Note(engine, ticket, bytes);
  }
  // Everything up to this ticket is complete.
  void OnRetired(uint64_t ticket) {
    if (!issued_.empty()) Settle(ticket);
  }

  // How many commands there may be between two marks, such that the lane hears in time that the
  // engine needs more; `most` while nobody else wants it.
  uint64_t MarkEvery(uint64_t most) const;
  // How long the lane may sleep between two looks, at most `nap`.
  absl::Duration NapAtMost(absl::Duration nap) const;
  // The lane ends: takes back what it has said of itself.
  void Leave();

 private:
  // Commands of one engine that were issued one after another.
  struct Run {
    Engine engine;
    uint64_t last;  // Its ticket.
    uint64_t count;
  };
  // What the lane has in flight of an engine.
  struct InFlight {
    uint64_t commands = 0;
    int64_t since_ns = 0;  // When the first of them may have begun.
    // How long one takes: an average over some 32 of them; 0 before the first is complete. And the
    // longest of some hundreds of late.
    int64_t expected_ns = 0;
    int64_t longest_ns = 0;
  };

  EngineSlot& slot(Engine engine) { return (*slots_)[EngineIndex(engine)]; }
  InFlight& in_flight(Engine engine) { return in_flight_[EngineIndex(engine)]; }
  bool IsFreeBesideOthers(Engine engine, uint64_t bytes);
  bool Ask(Engine engine, Grant grant);
  // In a turn that lasts until then; 0 for none.
  bool HasRoom(Engine engine, int64_t until_ns);
  // How long a command takes, for how many may be in flight.
  int64_t LengthOf(const InFlight& own) const;
  void WaitFor(Engine engine);
  void StopWaiting();
  void Note(Engine engine, uint64_t ticket, uint64_t bytes);
  void ShowShare();
  void Settle(uint64_t ticket);
  void Complete(Engine engine, uint64_t commands, int64_t now_ns);
  void BeginIssuing(Engine engine);
  void EndIssuing();
  void BeginWork(Engine engine, int64_t now_ns);
  void EndWork(Engine engine, int64_t now_ns);

  const SessionGates* const gates_;
  const size_t device_;
  DeviceSlots* const slots_;             // Null where nothing is dispatched.
  Engine waits_for_ = Engine::kNothing;  // What lanes_waiting says of this lane.
  Engine limited_ = Engine::kNothing;    // The last one that was not wholly open.
  Engine issuing_ = Engine::kNothing;    // It has nothing else in flight there.
  bool brief_ = false;                   // Somebody more urgent is expected there.
  int64_t ahead_ns_ = 0;                 // How far ahead it may be of that one.
  int64_t likely_ns_ = 0;                // When its turn may begin, while it waits.
  uint32_t share_ = 0;                   // That the page shows, as far as the lane knows.
  std::deque<Run> issued_;
  std::array<InFlight, kEngines> in_flight_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_LANE_TURNS_H_
