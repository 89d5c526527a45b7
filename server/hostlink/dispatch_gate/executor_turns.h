// The executor's side of dispatch. The executor asks it before it issues a command to an engine,
// and tells it which commands were issued and which are complete.
//
//   ExecutorTurns turns(gates, device);
//   if (turns.IsFree(engine, bytes)) <issue, and say nothing>
//   if (!turns.MayIssue(engine)) ...              // Tried again at the executor's next look.
//   <issue>
//   turns.OnIssued(engine, ticket, bytes, kernel);
//   ...
//   turns.OnRetired(ticket);
//
// While no other slice has the device, MayIssue() is one load of a line that stays in the
// executor's cache, and OnIssued() counts in the executor's own memory. The shared line is written
// only when the executor begins to have work in flight, or has none left. Nothing here is a system
// call, takes a lock, or waits.
//
// While other sessions have the device but are idle, the executor keeps at most 16 ms of work
// ahead, for which others would have to wait. While others wait, it issues only enough to keep the
// engine busy, and no command that would begin after its turn. Little is then in flight when the
// turn ends. This is XSched's first level (Shen et al., OSDI 2025), with a threshold in time
// instead of commands. While a more urgent session is expected (Grant::Brief), the executor keeps
// still less ahead, or one command.
//
// In a turn, the executor issues no copy behind its own kernels that are not complete, and no
// kernel behind copies. Such a command would hold one engine while it waits for the other.
//
// Where the device does not order kernels by the priorities of their streams, the executors of a
// session do. While one of a higher priority is about to begin, the others make way, for at most
// kMostWayNs. While it has kernels in flight, they have only a little in flight, as while a more
// urgent session is expected. So each stream always goes on.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_EXECUTOR_TURNS_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_EXECUTOR_TURNS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/command_lists.h"
#include "proto/devices.h"
#include "server/hostlink/dispatch_gate/free_copies.h"
#include "server/hostlink/dispatch_gate/kernel_times.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// The parts of a session's page that its executors share. Thread-safe.
class SessionGates {
 public:
  // MonotonicNs(), or a test's clock.
  using Clock = int64_t (*)();

  // `share` is the session's part of its device's multiprocessors, in thousandths; null where
  // sessions do not divide them.
  explicit SessionGates(std::unique_ptr<DispatchPage> page, Clock clock = &MonotonicNs,
                        std::shared_ptr<const std::atomic<uint32_t>> share = nullptr)
      : page_(std::move(page)), clock_(clock), share_(std::move(share)) {}

  DeviceSlots& device(size_t device) const { return page_->device(device); }
  RankLine& ranks(size_t device) const { return page_->ranks(device); }
  KernelLine& kernel(size_t device) const { return page_->kernel(device); }
  KernelTimes& kernel_times() const { return kernel_times_; }
  int64_t now_ns() const { return clock_(); }
  // REQUIRES: the engine is one that copies.
  FreeCopies& free_copies(size_t device, Engine engine) const {
    return free_copies_[device][EngineIndex(engine)];
  }
  uint32_t share() const { return share_ == nullptr ? 0 : share_->load(std::memory_order_relaxed); }
  // Says that code is about to be loaded onto a device, or that a load is over. Every load that
  // begins must end.
  void NoteLoad(size_t device, bool begins) const {
    WorkerLine& line = page_->device(device)[EngineIndex(Engine::kCompute)].worker;
    (begins ? line.loads_begun : line.loads_ended).fetch_add(1, std::memory_order_release);
  }

 private:
  const std::unique_ptr<DispatchPage> page_;
  const Clock clock_;
  const std::shared_ptr<const std::atomic<uint32_t>> share_;
  mutable std::array<std::array<FreeCopies, kEngines>, kMaxSessionDevices> free_copies_;
  mutable KernelTimes kernel_times_;
};

// The turns of one executor. Thread-compatible: it belongs to the thread that runs the executor.
class ExecutorTurns {
 public:
  // How far ahead of the device an executor issues while a more urgent session is expected, while
  // others wait, and while others might come.
  static constexpr int64_t kBriefAheadNs = 300'000;
  static constexpr int64_t kAheadNs = 1'000'000;
  static constexpr int64_t kSharedAheadNs = 16'000'000;
  // The longest time for which an executor issues nothing because others of a higher priority are
  // about to begin. They have it together.
  static constexpr int64_t kMostWayNs = 1'000'000;

  // `gates` is borrowed; null where nothing is dispatched. `device` is the session's number of it.
  ExecutorTurns(const SessionGates* gates, size_t device);
  // Takes the executor's numbers out of the page.
  ~ExecutorTurns() { Leave(); }
  ExecutorTurns(const ExecutorTurns&) = delete;
  ExecutorTurns& operator=(const ExecutorTurns&) = delete;

  // Sets CUDA's priority of the executor's stream, which may be any number. `makes_way` says that
  // the executor makes way for others of the session with a higher priority, because the device
  // does not order them.
  void SetPriority(int32_t priority, bool makes_way);
  // Returns whether a copy of `bytes` is so small that it needs no turn, with few like it lately.
  // It is then issued without MayIssue() and OnIssued(). `bytes` is 0 for a kernel.
  bool IsFree(Engine engine, uint64_t bytes) {
    if (bytes == 0 || bytes >= FreeCopies::kSmallBytes || slots_ == nullptr) return false;
    // While no other slice has the device, nothing is counted.
    return slot(engine).grant().open() || IsFreeBesideOthers(engine, bytes);
  }
  // Returns whether a command of this engine may be issued now. Commands of kNothing always may.
  bool MayIssue(Engine engine) {
    if (slots_ == nullptr || engine == Engine::kNothing) return true;
    const Grant grant = (*slots_)[EngineIndex(engine)].grant();
    if (grant.open() && limited_ == Engine::kNothing && !Outranked(engine)) return true;
    return Ask(engine, grant);
  }
  // Says that a command is about to be issued. It counts as work in flight from now on, because the
  // driver may take long, as with a kernel's first launch, for which it loads code. Either
  // OnIssued() or OnNotIssued() must follow.
  void OnIssuing(Engine engine) {
    if (slots_ == nullptr || engine == Engine::kNothing) return;
    if (in_flight(engine).commands == 0) BeginIssuing(engine);
  }
  // Says that the command could not be issued yet.
  void OnNotIssued() {
    if (issuing_ != Engine::kNothing) EndIssuing();
  }
  // Returns true if the executor waits for the compute engine and has not said yet with what.
  bool wants_kernel() const { return waits_for_ == Engine::kCompute && !shows_kernel_; }
  // Says which launch the executor waits with; zeros for work that is not a kernel's launch. Its
  // expected time is filled in here.
  void ShowKernel(KernelFacts kernel);
  // Says that a command, or a part of it, was issued. `ticket` grows from command to command.
  // `bytes` is the size of a copy, and 0 for a kernel. `kernel` is the hash of a launched kernel's
  // name, and 0 for other commands; its time is learned while others have the device.
  void OnIssued(Engine engine, uint64_t ticket, uint64_t bytes, uint64_t kernel = 0) {
    if (slots_ == nullptr || engine == Engine::kNothing) return;
    Note(engine, ticket, bytes, limited_ == Engine::kNothing ? 0 : kernel);
  }
  // Says that the command for which MayIssue() was asked will not be issued.
  void OnDropped() {
    if (waits_for_ != Engine::kNothing) StopWaiting();
  }
  // Says that all commands up to this ticket are complete.
  void OnRetired(uint64_t ticket) {
    if (!issued_.empty()) Settle(ticket);
  }

  // Returns the most commands between two marks for which the executor still learns in time that
  // the engine needs more work. Returns `most` while no other slice has the device.
  uint64_t MarkEvery(uint64_t most) const;
  // Returns how long the executor may sleep between two looks; at most `nap`.
  absl::Duration NapAtMost(absl::Duration nap) const;
  // Takes the executor's numbers out of the page, because the executor ends.
  void Leave();

 private:
  // Commands of one engine that were issued one after another, and that launch one kernel if its
  // name is known.
  struct Run {
    Engine engine;
    uint64_t kernel;  // 0 for none.
    uint64_t last;    // The last command's ticket.
    uint64_t count;
  };
  // The executor's work in flight on an engine.
  struct InFlight {
    uint64_t commands = 0;
    int64_t since_ns = 0;  // When the first of them may have begun.
    // The time of a command: an average over some 32 of them, 0 before the first is complete; and
    // the longest among the last hundreds.
    int64_t expected_ns = 0;
    int64_t longest_ns = 0;
  };

  EngineSlot& slot(Engine engine) { return (*slots_)[EngineIndex(engine)]; }
  InFlight& in_flight(Engine engine) { return in_flight_[EngineIndex(engine)]; }
  bool IsFreeBesideOthers(Engine engine, uint64_t bytes);
  bool Ask(Engine engine, Grant grant);
  // Returns whether an executor to which this one makes way is at work.
  bool Outranked(Engine engine) const {
    return makes_way_ && engine == Engine::kCompute && ranks_->Highest() > rank_;
  }
  // Returns whether to issue nothing, because an executor of a higher priority is about to begin.
  bool MakesWayNow();
  // Writes to the page what the executor wants of the compute engine, if its stream has a rank.
  void ShowRank();
  void CountRank(uint32_t rank, bool beginning, uint32_t by);
  // Returns whether the executor may have another command in flight, in a turn that lasts until
  // `until_ns`; 0 for no turn.
  bool HasRoom(Engine engine, int64_t until_ns);
  // Returns the time of a command that decides how many may be in flight.
  int64_t LengthOf(const InFlight& own) const;
  void WaitFor(Engine engine);
  void StopWaiting();
  void Note(Engine engine, uint64_t ticket, uint64_t bytes, uint64_t kernel);
  void ShowShare();
  void Settle(uint64_t ticket);
  // Learns from `commands` of the compute engine that are complete now, with the kernels among
  // them.
  void Learn(uint64_t commands, int64_t now_ns);
  void Complete(Engine engine, uint64_t commands, int64_t now_ns);
  void BeginIssuing(Engine engine);
  void EndIssuing();
  void BeginWork(Engine engine, int64_t now_ns);
  void EndWork(Engine engine, int64_t now_ns);

  const SessionGates* const gates_;
  const size_t device_;
  DeviceSlots* const slots_;  // Null where nothing is dispatched.
  RankLine* const ranks_;     // Null where slots_ is.
  uint32_t rank_ = 0;
  bool makes_way_ = false;
  uint32_t shown_rank_ = 0;              // The rank for which RankLine counts it; 0 for none.
  bool shown_beginning_ = false;         // RankLine counts it as beginning.
  int64_t makes_way_since_ns_ = 0;       // 0 while no executor is to begin before this one.
  Engine waits_for_ = Engine::kNothing;  // The engine whose executors_waiting counts this executor.
  Engine limited_ = Engine::kNothing;    // The last engine that was not wholly open.
  Engine issuing_ = Engine::kNothing;    // The engine of a first command that is being issued.
  bool brief_ = false;                   // A more urgent session is expected at `limited_`.
  int64_t ahead_ns_ = 0;                 // How far ahead of `limited_` the executor may be.
  int64_t likely_ns_ = 0;                // When its turn may begin, while it waits.
  uint32_t share_ = 0;                   // The share in the page, as far as the executor knows.
  bool shows_kernel_ = false;            // It has said with which launch it waits.
  std::deque<Run> issued_;
  std::vector<std::pair<uint64_t, uint64_t>>
      complete_;  // Kernels of one Settle(), and their counts.
  std::array<InFlight, kEngines> in_flight_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_EXECUTOR_TURNS_H_
