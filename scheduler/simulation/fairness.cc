#include "scheduler/simulation/fairness.h"

#include <algorithm>
#include <numeric>

namespace warpline::simulation {

std::vector<double> MaxMinShares(const std::vector<double>& demands,
                                 const std::vector<double>& weights, double amount) {
  std::vector<double> shares(demands.size(), 0);
  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return demands[a] / weights[a] < demands[b] / weights[b]; });
  double weight = std::accumulate(weights.begin(), weights.end(), 0.0);
  // Who wants least for its weight is content first, and leaves the rest to the others.
  for (const size_t i : order) {
    shares[i] = std::min(demands[i], amount * weights[i] / weight);
    amount -= shares[i];
    weight -= weights[i];
  }
  return shares;
}

double JainIndex(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

FairnessMeter::FairnessMeter(const std::vector<Organisation>& organisations,
                             const std::vector<Team>& teams)
    : organisations_(organisations), teams_(teams), fair_(teams.size(), 0), had_(teams.size(), 0) {}

void FairnessMeter::Add(const std::vector<double>& demands, const std::vector<double>& had) {
  std::vector<double> wanted(organisations_.size(), 0);
  std::vector<double> weights(organisations_.size(), 0);
  for (size_t t = 0; t < teams_.size(); ++t) wanted[teams_[t].organisation] += demands[t];
  for (size_t o = 0; o < weights.size(); ++o) weights[o] = organisations_[o].weight;
  const double amount = std::accumulate(had.begin(), had.end(), 0.0);
  const std::vector<double> of_organisations = MaxMinShares(wanted, weights, amount);
  for (size_t o = 0; o < organisations_.size(); ++o) {
    std::vector<size_t> members;
    std::vector<double> their_demands;
    std::vector<double> their_weights;
    for (size_t t = 0; t < teams_.size(); ++t) {
      if (teams_[t].organisation != o) continue;
      members.push_back(t);
      their_demands.push_back(demands[t]);
      their_weights.push_back(teams_[t].weight);
    }
    const std::vector<double> shares =
        MaxMinShares(their_demands, their_weights, of_organisations[o]);
    for (size_t i = 0; i < members.size(); ++i) {
      fair_[members[i]] += shares[i];
      had_[members[i]] += std::min(had[members[i]], shares[i]);
    }
  }
}

double FairnessMeter::Jain() const {
  std::vector<double> ratios;
  for (size_t t = 0; t < fair_.size(); ++t) {
    if (fair_[t] > 0) ratios.push_back(had_[t] / fair_[t]);
  }
  return JainIndex(ratios);
}

}  // namespace warpline::simulation
