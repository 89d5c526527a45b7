// A simulated GPU that processes share by time slicing. Its tenants use the worker's own executors
// (ExecutorTurns), and its arbiters see only the tenants' pages. Time is simulated.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_TESTING_SIMULATED_GPU_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_TESTING_SIMULATED_GPU_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "policy/policy.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/slot_reader.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// Times in nanoseconds. kShort and kLong are the lengths of short and long kernels.
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kShort = 50'000;
inline constexpr int64_t kLong = 5 * kMs;

// One command of an executor's program.
struct SimulatedWork {
  Engine engine = Engine::kCompute;
  int64_t ns = 50'000;
  // The host waits for the command's end, and has the next command this long after it. Less than 0
  // for a host that does not wait.
  int64_t host_ns = -1;
  // For a host that waits: the next command comes this long after this one came, or when this one
  // is complete if that is later. With 0 `host_ns` decides.
  int64_t every_ns = 0;
  // The time that the executor spends in the driver to issue the command.
  int64_t issue_ns = 0;
};

class SimulatedGpu;

// A session with one executor, which repeats its program while it is on.
class SimulatedTenant {
 public:
  SimulatedTenant(const ContenderTerms& terms, std::vector<SimulatedWork> program);

  void Switch(bool on) { on_ = on; }
  // Returns the time that it has had the engine since the last call.
  int64_t TakeUsed(Engine engine);
  uint64_t complete() const { return complete_; }
  // True if the policy has ended it for more urgent work.
  bool killed() const { return killed_ns_ != 0; }
  // The time from when the last command could have begun until it was complete.
  int64_t latency_ns() const { return latency_ns_; }
  WorkerLine& line(Engine engine) { return page_->device(0)[EngineIndex(engine)].worker; }
  Contender* contender(Engine engine) { return contenders_[EngineIndex(engine)]; }
  // Called before each look of the arbiter, to write lies into the page. May be null.
  std::function<void(SimulatedTenant*)> lie;

 private:
  friend class SimulatedGpu;
  struct Command {
    SimulatedWork work;
    uint64_t ticket;
    int64_t left_ns;
    int64_t ready_ns;
  };

  void ExecutorLooks(int64_t now_ns);

  const ContenderTerms terms_;
  const std::vector<SimulatedWork> program_;
  DispatchPage* page_ = nullptr;
  std::unique_ptr<SessionGates> gates_;
  std::unique_ptr<ExecutorTurns> turns_;
  std::array<Contender*, kEngines> contenders_{};
  std::array<SlotReader, kEngines> readers_;
  std::array<int64_t, kEngines> used_ns_{};
  std::deque<Command> in_flight_;
  bool on_ = true;
  int64_t killed_ns_ = 0;  // When it was killed; 0 for never.
  bool waits_ = false;     // It has a command that it may not issue yet.
  size_t next_ = 0;
  uint64_t tickets_ = 0;
  uint64_t complete_ = 0;
  uint64_t retired_ = 0;
  int64_t ready_ns_ = 0;  // When the host has its next command.
  int64_t look_ns_ = 0;
  int64_t issued_ns_ = 0;  // When the driver will have issued the executor's command; 0 for none.
  int64_t latency_ns_ = 0;
};

class SimulatedGpu {
 public:
  static constexpr int64_t kStepNs = 5'000;
  static constexpr int64_t kLookNs = 100'000;
  // A tenant that is killed goes on for this long.
  static constexpr int64_t kKillNs = 1'000'000;

  // `policy` is borrowed; null for no dispatch at all.
  explicit SimulatedGpu(policy::Policy* policy, ArbiterOptions options = {});

  SimulatedTenant* Add(const ContenderTerms& terms, std::vector<SimulatedWork> program);
  // Ends the session with its work in flight.
  void Leave(SimulatedTenant* tenant);
  // Lets `ns` of simulated time pass.
  void Run(int64_t ns);
  int64_t now_ns() const;
  const EngineArbiter& arbiter(Engine engine) const { return *arbiters_[EngineIndex(engine)]; }
  const FlightRecorder& recorder() const { return recorder_; }
  // The time that the compute engine is idle when it goes over to another tenant's kernels.
  int64_t switch_ns = 0;

 private:
  // Returns whether the compute engine is idle now because it goes over to another tenant.
  bool Switches();
  void Work();
  void Arbitrate();

  const bool dispatches_;
  FlightRecorder recorder_;
  std::array<std::unique_ptr<EngineArbiter>, kEngines> arbiters_;
  std::vector<std::unique_ptr<SimulatedTenant>> tenants_;
  int64_t look_ns_ = 0;
  const SimulatedTenant* computed_ = nullptr;  // The last tenant whose kernels ran alone.
  int64_t switched_ns_ = 0;                    // When the engine has gone over to them.
};

// Returns a program of kernels of `ns` each; see SimulatedWork for `host_ns`.
inline std::vector<SimulatedWork> Kernels(int64_t ns, int64_t host_ns = -1) {
  return {{Engine::kCompute, ns, host_ns}};
}

inline ContenderTerms Named(uint32_t vgpu) {
  ContenderTerms terms;
  terms.vgpu = vgpu;
  return terms;
}
inline ContenderTerms Weight(uint32_t weight, int32_t priority = 0) {
  ContenderTerms terms;
  terms.weight = weight;
  terms.priority = priority;
  return terms;
}

// Returns the recorder's spans of a slice.
std::vector<TraceSpan> SpansOf(const SimulatedGpu& gpu, TraceKind kind, uint32_t slice);

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_TESTING_SIMULATED_GPU_H_
