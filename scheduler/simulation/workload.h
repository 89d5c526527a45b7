// Sessions like those that published traces of GPU clusters have, drawn by a seed.
//
// How large: parts of a device as in Alibaba's cluster-trace-gpu-v2023 (openb_pod_list_default.csv,
// the trace of Weng et al., "Beware of Fragmentation", USENIX ATC 2023), where 38 % of pods want a
// part of a device and 48 % one device. That trace hardly has larger ones, so these are set by
// hand: 21 % of sessions want 2, 4 or 8 devices of one server and 4 % are gangs of 2 to 32 servers
// with 8 devices each, 3.1 devices on average (by memory, not looked up again: Hu et al., SC
// 2021, report 1.75 for Microsoft's Philly and 3.72 for SenseTime's Helios). How long: the
// quantiles of 83,154 running times of Philly's trace (Jeon et al., USENIX ATC 2019), as they stand
// in philly_runtime.csv beside Alibaba's cluster-trace-gpu-v2020 (Weng et al., "MLaaS in the Wild",
// NSDI 2022).
#ifndef WARPLINE_SCHEDULER_SIMULATION_WORKLOAD_H_
#define WARPLINE_SCHEDULER_SIMULATION_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace warpline::simulation {

// One that a tenant wants to run. Each member of a gang has a lease of its own.
struct Session {
  // From the start on; those of 0 run for a while already.
  double arrives_s = 0;
  double lasts_s = 0;   // From the time on when it has all its leases.
  uint32_t tenant = 0;  // Index.
  uint32_t gpus = 1;    // Of one server.
  uint32_t members = 1;
  uint32_t milli = 1000;  // Of each device.

  double devices() const { return gpus * members * milli / 1000.0; }
};

struct Organisation {
  std::string name;
  uint32_t weight = 1;
};

struct Team {
  std::string name;
  uint32_t organisation = 0;  // Index.
  uint32_t weight = 1;
};

struct WorkloadOptions {
  uint64_t seed = 1;
  size_t sessions = 100000;
  uint32_t devices = 10000;
  uint32_t most_members = 32;
  // What sessions want together, of what there is, in the mean of a day.
  double load = 0.95;
};

struct Workload {
  std::vector<Organisation> organisations;
  std::vector<Team> teams;  // The tenants.
  // By arrival: first those that have arrived before the start and have not ended by then, in what
  // is left of their time, so that the pool is as full from the start on as it stays.
  std::vector<Session> sessions;
  size_t running = 0;  // How many of them have.
};

Workload DrawWorkload(const WorkloadOptions& options);

}  // namespace warpline::simulation

#endif  // WARPLINE_SCHEDULER_SIMULATION_WORKLOAD_H_
