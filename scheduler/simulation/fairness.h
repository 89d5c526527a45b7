// How fair a division between tenants was, in comparison with weighted max-min fairness in two
// levels: organisations, and the teams of each.
#ifndef WARPLINE_SCHEDULER_SIMULATION_FAIRNESS_H_
#define WARPLINE_SCHEDULER_SIMULATION_FAIRNESS_H_

#include <vector>

#include "scheduler/simulation/workload.h"

namespace warpline::simulation {

// Divides `amount` so that nobody gets more than it demands, and who gets less than that as much by
// weight as any other.
std::vector<double> MaxMinShares(const std::vector<double>& demands,
                                 const std::vector<double>& weights, double amount);

// Jain's index of fairness (Jain, Chiu and Hawe, 1984): 1 when all are equal, 1/n when one has all.
// 1 for none.
double JainIndex(const std::vector<double>& values);

// Thread-compatible.
class FairnessMeter {
 public:
  FairnessMeter() = default;
  FairnessMeter(const std::vector<Organisation>& organisations, const std::vector<Team>& teams);

  // What the teams want and have at a moment, in devices.
  void Add(const std::vector<double>& demands, const std::vector<double>& had);
  // Of the parts that teams had of what they should have had. What one had above that, while others
  // did not want it, is not counted. Teams that should have had nothing are left out.
  double Jain() const;

 private:
  std::vector<Organisation> organisations_;
  std::vector<Team> teams_;
  std::vector<double> fair_, had_;
};

}  // namespace warpline::simulation

#endif  // WARPLINE_SCHEDULER_SIMULATION_FAIRNESS_H_
