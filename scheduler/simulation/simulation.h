// The scheduler's placement on a virtual clock: a pool, its tenants and their sessions, without
// servers and without waiting.
//
//   Simulation simulation({.servers = 1250}, DrawWorkload({}));
//   const Figures figures = simulation.Run([](const Sample& sample) { ... });
#ifndef WARPLINE_SCHEDULER_SIMULATION_SIMULATION_H_
#define WARPLINE_SCHEDULER_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/placement/decision_log.h"
#include "scheduler/simulation/workload.h"

namespace warpline::simulation {

struct SimulationOptions {
  uint32_t servers = 1250;
  uint32_t devices_each = 8;  // In two NVLink groups, each on a NUMA node.
  placement::Order order = placement::Order::kPack;
  absl::Duration patience = absl::Minutes(10);
  // As AllocatorOptions has them.
  absl::Duration epoch = absl::ZeroDuration();
  absl::Duration notice = absl::Minutes(1);
  // What a session whose lease is taken back has to do again, besides asking for another one: its
  // last checkpoint was so long ago, start included.
  absl::Duration restart = absl::Minutes(2);
  // How often the scheduler looks at the time.
  absl::Duration tick = absl::Seconds(10);
  // How often a sample is taken.
  absl::Duration sample = absl::Minutes(30);
  // Where decisions are recorded; none when it is empty.
  std::string decisions;
};

struct Sample {
  double hours = 0;
  double used = 0;  // Of all devices.
  double bound =
      0;  // What best-fit decreasing would use of them, for what runs and waits; see Figures.
  uint32_t waiting = 0;  // Requests.
  size_t arrived = 0;
};

// The waits of sessions of one size.
struct Waits {
  size_t sessions = 0;
  size_t waited = 0;  // Those that were not placed at once.
  double mean_s = 0, p50_s = 0, p99_s = 0, most_s = 0;
};

struct Figures {
  size_t sessions = 0;    // That ran.
  size_t placements = 0;  // Leases granted.
  size_t events = 0;
  // Of the processor's time in the allocator, in seconds: for asks and releases, and for ticks.
  double deciding_s = 0;
  double ticking_s = 0;
  double p50_us = 0, p99_us = 0, most_us = 0;  // Of one ask.
  double placements_per_s() const { return static_cast<double>(placements) / deciding_s; }
  double used = 0;  // Of all devices, in the mean of the samples until the last session arrived.
  // By how much less is used than what best-fit decreasing would, on an empty pool, for all that
  // runs and waits at that moment; the mean of samples at which something waits. It may place anew
  // what runs, which the scheduler may not, so this is a bound and not what another scheduler would
  // get.
  double fragmentation = 0;
  size_t bounded_samples = 0;
  // Leases that ended since somebody with less than its share waited, and what their sessions had
  // to do again, in hours of a device.
  size_t taken_back = 0;
  double repeated_hours = 0;
  // Of each team, how long its sessions took from their arrival on in proportion to how long they
  // ran, weighted by their devices (finish-time fairness compares these): the highest, and the
  // mean.
  double most_behind = 0, mean_behind = 0;
  // Jain's index of the parts that tenants had of what weighted max-min fairness would have given
  // them of the devices in use (FairnessMeter), over the samples at which something waits. 1 is
  // fair.
  double fairness = 0;
  double days = 0;
  size_t most_waiting = 0;
  std::map<std::string, Waits> waits;  // By size: "part", "1", "2-4", "8", "gang", "all".
};

class Simulation {
 public:
  Simulation(SimulationOptions options, Workload workload);
  ~Simulation();

  // UNAVAILABLE when decisions cannot be recorded, INTERNAL when the allocator did what must not
  // be: a device was leased more than once over, or a gang in parts.
  absl::StatusOr<Figures> Run(const std::function<void(const Sample&)>& progress);

 private:
  class State;

  const std::unique_ptr<State> state_;
};

}  // namespace warpline::simulation

#endif  // WARPLINE_SCHEDULER_SIMULATION_SIMULATION_H_
