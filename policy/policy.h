// What decides who goes first: the hooks that a policy answers, what it is told, what it may say.
//
// A policy advises and the server enforces: it may delay, reorder and refuse, and never grants what
// quotas, rights or the guard deny. It has no clock of its own, waits for nothing, and touches no
// device. What it does not know it leaves to the default, and a verdict that a hook does not know
// is the default, too, so that an older policy goes on with a newer server.
//
// Contexts are plain structures of fixed layout. Their beginnings are those of
// policy/include/warpline_policy.h, from which programs are compiled, so that one that is written
// in C gets them as they are; what was added since stands at their ends. Times are nanoseconds of
// one steady clock, shares are thousandths of a device.
//
//   class Shortest : public Policy {
//    public:
//     std::string_view name() const override { return "shortest"; }
//     Verdict OnDispatch(const DispatchContext& c) override {
//       return Verdict::Score(~static_cast<uint32_t>(c.expected_ns / 1000));
//     }
//   };
#ifndef WARPLINE_POLICY_POLICY_H_
#define WARPLINE_POLICY_POLICY_H_

#include <cstdint>
#include <string_view>

namespace warpline::policy {

inline constexpr uint32_t kPolicyVersion = 1;

enum class Action : uint32_t {
  kDefault = 0,
  kRun = 1,
  kHold = 2,  // Argument: microseconds; 0 for until something changes.
  kSkip = 3,
  kReject = 4,
  kYield = 5,
  kKeep = 6,
  kFail = 7,
  kReclaim = 8,
  kScore = 9,      // Argument: the score, where most is best.
  kThrottle = 10,  // Argument: microseconds of each nap.
  kKill = 11,
};

struct Verdict {
  Action action = Action::kDefault;
  uint32_t argument = 0;

  static constexpr Verdict Run() { return {Action::kRun, 0}; }
  static constexpr Verdict Hold(uint32_t us) { return {Action::kHold, us}; }
  static constexpr Verdict Skip() { return {Action::kSkip, 0}; }
  static constexpr Verdict Yield() { return {Action::kYield, 0}; }
  static constexpr Verdict Keep() { return {Action::kKeep, 0}; }
  static constexpr Verdict Score(uint32_t score) { return {Action::kScore, score}; }
  static constexpr Verdict Throttle(uint32_t us) { return {Action::kThrottle, us}; }
  static constexpr Verdict Kill() { return {Action::kKill, 0}; }
};

// What every context begins with.
struct ContextHead {
  uint32_t version = kPolicyVersion;
  uint32_t vgpu = 0;     // The number of the slice on its device.
  uint64_t tenant = 0;   // A number that stays the tenant's.
  uint64_t session = 0;  // 0 where the hook is about no single session.
  uint64_t now_ns = 0;
};

// A session is about to be opened, before anything is taken for it. kRun (open it), kHold (it is
// asked about again then), kReject.
struct SubmitContext {
  ContextHead head;
  uint64_t bytes = 0;        // Device memory that it asks for with its opening.
  uint64_t expected_ns = 0;  // 0 where nothing is known.
  uint32_t call_class = 3;   // A session: commands are asked about by the engines they want.
  uint32_t queue_depth = 0;  // Sessions that the tenant has on the device already.
};

// The slice has work for an engine that is to be given to somebody. kRun, kScore, kHold, kSkip: of
// those that may run the one with the highest score does, and of equal ones that which has waited
// the longest; kRun is a score of 0.
struct DispatchContext {
  ContextHead head;
  int64_t credit_ns = 0;  // What it may still use, beside what others use; less than 0 for a debt.
  uint64_t wait_ns = 0;
  uint64_t expected_ns = 0;  // 0 where nothing is known.
  uint32_t used_share = 0;   // Measured over the last second.
  uint32_t bw_share = 0;     // Assigned, among those that are active.
  uint32_t queue_depth = 0;
  uint32_t engine = 0;  // 0 for compute, 1 for copies.
  int32_t priority = 0;
  uint32_t more_urgent_waiting = 0;  // Slices of higher priority that wait for this engine.
  uint32_t power_mw = 0;             // 0 where the device does not say.
  uint32_t power_limit_mw = 0;
  int32_t temperature_c = 0;
  uint32_t day_second = 0;  // Since midnight, UTC.
  uint32_t device = 0;      // Its number.
  // These describe a launch for which the slice waits, in the words of its worker, with
  // `expected_ns` above, which is how long the kernel took lately. All are 0 for other work, and
  // where nothing waits.
  uint32_t registers = 0;    // For each thread.
  uint64_t kernel = 0;       // The FNV-1a hash of the kernel's name.
  uint64_t grid_blocks = 0;  // Blocks of the grid.
  uint32_t block_threads = 0;
  uint32_t shared_bytes = 0;  // For each block.
  // Since version 1 of the built-in policies; programs in C do not see these.
  uint64_t period_ns = 0;    // How often the slice has work, where its lease says; 0 for unknown.
  uint64_t active_ns = 0;    // How long it has had work since it was last at rest.
  uint64_t attained_ns = 0;  // How long it has had the engine meanwhile.
  uint32_t active_slices = 0;
  // Of a slice with a reservation: the time that it is to have in each period, what of that is
  // left, less than 0 for what it owes, and the end of the period. 0 for all without one.
  uint64_t budget_ns = 0;
  int64_t budget_left_ns = 0;
  uint64_t deadline_ns = 0;
};

// At level 1, it is a slice's turn while another one waits: kYield, kKeep, kKill. At level 2, work
// of its is in flight that no turn takes back: its kernels run beside those of a more urgent slice
// in the same hardware context (kThrottle, kHold, kKeep, kKill), or they have not become complete
// since its turn was over, while a more urgent one wants the engine (kKeep, kKill). kKill ends its
// sessions that have work in flight, with an error; it is heeded where `killable` says so. kHold
// has the slice launch nothing for so long, 10 ms at most, or until the policy says something else
// of it, and threads that ask nap. At level 0, of which only a policy hears that wishes to
// (Wishes::expects), another one is likely to come in a moment: kYield, if the slice would have to
// yield to that one, has the slice keep only a little in flight; kKeep.
struct PreemptContext {
  ContextHead head;
  uint64_t elapsed_ns = 0;  // Of the turn, or since it has had kernels in flight.
  // Of whoever has waited the longest; at level 2, how long ago the most urgent one had work.
  uint64_t waiting_ns = 0;
  int32_t priority = 0;
  int32_t waiting_priority = 0;  // The highest of those that wait, or are more urgent.
  uint32_t level = 1;            // 0 before the other comes, 1 between calls, 2 within a kernel.
  uint32_t engine = 0;
  // For how long its work has been in flight, a more urgent slice has wanted to go on, and nothing
  // of either has become complete.
  uint64_t in_way_ns = 0;
  // 1 for a best-effort slice that is in the way, and has been for a moment.
  uint32_t killable = 0;
  uint32_t device = 0;  // Its number.
  // At level 2 beside a more urgent slice in the same hardware context, of that one: how long it
  // has had kernels in flight, and how many commands of its have become complete, since it came;
  // and its number. Whoever knows when this slice's kernels went slowly can tell from it whether
  // that helps.
  uint64_t waiting_busy_ns = 0;
  uint64_t waiting_commands = 0;
  uint32_t waiting_vgpu = 0;
  uint32_t reserved = 0;
  // As in DispatchContext. Of the one that waits which has the least of its share.
  uint32_t waiting_used_share = 0;
  uint32_t waiting_bw_share = 0;
  int64_t waiting_credit_ns = 0;
  // As in DispatchContext, of the slice that runs, and whether its turn was given within its
  // budget.
  int64_t budget_left_ns = 0;
  uint64_t deadline_ns = 0;
  // The earliest of those that wait and are within their budgets; 0 for none.
  uint64_t waiting_deadline_ns = 0;
  uint32_t turn_is_reserved = 0;
};

// Work is complete; the verdict is ignored.
struct RetireContext {
  ContextHead head;
  uint64_t actual_ns = 0;
  uint64_t bytes = 0;
  uint32_t engine = 0;
  uint32_t status = 0;  // 0, or CUDA's error.
  uint32_t device = 0;  // Its number.
  uint32_t reserved = 0;
};

// A session's request for memory does not fit. kFail (refuse it at once), kReclaim (first have
// sessions of the same payer give up what they keep of what they returned), kHold (try again then).
struct MemFaultContext {
  ContextHead head;
  uint64_t wanted_bytes = 0;
  uint64_t used_bytes = 0;  // Of the quota, by all who share it.
  uint64_t quota_bytes = 0;
  uint64_t pool_free_bytes = 0;  // Of the device.
};

// Others want memory of a session. Either it keeps what it returned, and is held up while its
// worker is replaced. Or what it has is moved to the host, and back for its next command.
// kScore: what scores most goes first, and of equal ones what keeps most, or what has had no work
// for longest. kKeep: it is left alone.
struct ReclaimContext {
  ContextHead head;
  uint64_t bytes = 0;       // That it keeps, or that would be moved.
  uint64_t age_ns = 0;      // Of the session.
  uint32_t references = 0;  // Other holders, of whom what is kept has none.
  int32_t priority = 0;
  uint64_t wanted_by = 0;  // Moves only: the session that wants room; 0 for none.
  uint32_t moves = 0;      // 1: what it has would be moved.
  uint32_t reserved = 0;
};

// A copy is to be queued. kRun, kHold.
struct CopyEnqueueContext {
  ContextHead head;
  uint64_t bytes = 0;
  uint64_t io_used_bytes = 0;
  uint64_t io_budget_bytes = 0;
  uint32_t direction = 0;  // 0 to the device, 1 from it, 2 on it.
  int32_t priority = 0;
  uint32_t device = 0;  // Its number.
  uint32_t reserved = 0;
};

// The device's power and heat have been read, four times a second while it is given in turns. kRun,
// or kHold for everybody's work meanwhile, until the next reading at most.
struct PowerContext {
  ContextHead head;
  uint32_t power_mw = 0;
  uint32_t power_limit_mw = 0;
  int32_t temperature_c = 0;
  uint32_t reserved = 0;
};

// The device's temperature has been read, when its power has. kRun, kHold as there, or kThrottle
// for everybody's work until the next reading. Nobody then begins anything for so many microseconds
// of each millisecond, 900 at most. Threads of hardened kernels nap for as long each time that they
// ask.
struct ThermalContext {
  ContextHead head;
  int32_t temperature_c = 0;
  int32_t change_c = 0;  // Since the reading before.
  uint32_t device = 0;   // Its number.
  uint32_t reserved = 0;
};

// What a policy wants beyond what all policies get.
struct Wishes {
  // To be asked as well while one slice alone wants an engine, which has it unasked otherwise. Its
  // first work after a rest waits until the server has looked, for a millisecond at most.
  bool asked_always = false;
  // For how long it may have everybody wait before it is taken for one that fails; 0 for the
  // server's patience.
  int64_t longest_wait_ns = 0;
  // To be asked before somebody comes who does so at regular intervals (level 0 of on_preempt), so
  // that little is in flight then. Those who would have to yield are limited for half of the time
  // at most.
  bool expects = false;
};

// Called by one thread at a time, which holds no lock that a caller of another hook wants.
class Policy {
 public:
  virtual ~Policy() = default;
  // For logs and `warpline policy`.
  virtual std::string_view name() const = 0;
  // The same each time.
  virtual Wishes wishes() const { return {}; }

  virtual Verdict OnSubmit(const SubmitContext&) { return {}; }
  virtual Verdict OnDispatch(const DispatchContext&) { return {}; }
  virtual Verdict OnPreempt(const PreemptContext&) { return {}; }
  virtual void OnRetire(const RetireContext&) {}
  virtual Verdict OnMemFault(const MemFaultContext&) { return {}; }
  virtual Verdict OnReclaim(const ReclaimContext&) { return {}; }
  virtual Verdict OnCopyEnqueue(const CopyEnqueueContext&) { return {}; }
  virtual Verdict OnPower(const PowerContext&) { return {}; }
  virtual Verdict OnThermal(const ThermalContext&) { return {}; }
};

}  // namespace warpline::policy

#endif  // WARPLINE_POLICY_POLICY_H_
