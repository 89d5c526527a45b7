// A GPU that processes share by time slicing, with tenants whose lanes are the worker's own
// (LaneTurns), under arbiters that see only what stands in the tenants' pages. Time is simulated.
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
#include "server/hostlink/dispatch_gate/lane_turns.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// In nanoseconds; and how long kernels take of programs that have short ones or long ones.
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kShort = 50'000;
inline constexpr int64_t kLong = 5 * kMs;

// One command of a lane's program.
struct SimulatedWork {
  Engine engine = Engine::kCompute;
  int64_t ns = 50'000;
  // The host waits for the command's end, and then does something else for so long, before it has
  // the next one; less than 0 for a host that does not wait.
  int64_t host_ns = -1;
  // Of a host that waits: the next command comes so long after this one came, or when this one is
  // complete if that is later. 0 for as `host_ns` has it.
  int64_t every_ns = 0;
  // How long the lane is in the driver to issue the command.
  int64_t issue_ns = 0;
};

class SimulatedGpu;

// A session with one lane, which repeats its program for as long as it is on.
class SimulatedTenant {
 public:
  SimulatedTenant(const ContenderTerms& terms, std::vector<SimulatedWork> program);

  void Switch(bool on) { on_ = on; }
  // What it had of the engine since the last call.
  int64_t TakeUsed(Engine engine);
  uint64_t complete() const { return complete_; }
  // By the policy, for more urgent work: nothing more comes of it.
  bool killed() const { return killed_ns_ != 0; }
  // Of the last command: from when it could have begun until it was complete.
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

  void LaneLooks(int64_t now_ns);

  const ContenderTerms terms_;
  const std::vector<SimulatedWork> program_;
  DispatchPage* page_ = nullptr;
  std::unique_ptr<SessionGates> gates_;
  std::unique_ptr<LaneTurns> turns_;
  std::array<Contender*, kEngines> contenders_{};
  std::array<SlotReader, kEngines> readers_;
  std::array<int64_t, kEngines> used_ns_{};
  std::deque<Command> in_flight_;
  bool on_ = true;
  int64_t killed_ns_ = 0;  // When it was; 0 for never.
  bool waits_ = false;     // It has a command that it may not issue yet.
  size_t next_ = 0;
  uint64_t tickets_ = 0;
  uint64_t complete_ = 0;
  uint64_t retired_ = 0;
  int64_t ready_ns_ = 0;  // When the host has its next command.
  int64_t look_ns_ = 0;
  int64_t issued_ns_ = 0;  // When what the lane is in the driver for is issued; 0 for nothing.
  int64_t latency_ns_ = 0;
};

class SimulatedGpu {
 public:
  static constexpr int64_t kStepNs = 5'000;
  static constexpr int64_t kLookNs = 100'000;
  // For so long a tenant that is killed goes on.
  static constexpr int64_t kKillNs = 1'000'000;

  // `policy` is borrowed; null for no dispatch at all.
  explicit SimulatedGpu(policy::Policy* policy, ArbiterOptions options = {});

  SimulatedTenant* Add(const ContenderTerms& terms, std::vector<SimulatedWork> program);
  // The session ends, and what it has in flight with it.
  void Leave(SimulatedTenant* tenant);
  // Goes on for so long.
  void Run(int64_t ns);
  int64_t now_ns() const;
  const EngineArbiter& arbiter(Engine engine) const { return *arbiters_[EngineIndex(engine)]; }
  const FlightRecorder& recorder() const { return recorder_; }
  // How long the compute engine stands still when it goes over to the kernels of another tenant.
  int64_t switch_ns = 0;

 private:
  // Whether the compute engine stands still now.
  bool Switches();
  void Work();
  void Arbitrate();

  const bool dispatches_;
  FlightRecorder recorder_;
  std::array<std::unique_ptr<EngineArbiter>, kEngines> arbiters_;
  std::vector<std::unique_ptr<SimulatedTenant>> tenants_;
  int64_t look_ns_ = 0;
  const SimulatedTenant* computed_ = nullptr;  // Whose kernels ran alone last.
  int64_t switched_ns_ = 0;                    // When it has gone over to them.
};

// A program of kernels that take so long each; `host_ns` as SimulatedWork has it.
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

// What the recorder has of a slice.
std::vector<TraceSpan> SpansOf(const SimulatedGpu& gpu, TraceKind kind, uint32_t slice);

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_TESTING_SIMULATED_GPU_H_
