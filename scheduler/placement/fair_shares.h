// How much of a pool each tenant should have: what is reserved first, and the rest by weighted
// max-min fairness, level by level of the tree of tenants.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_FAIR_SHARES_H_
#define WARPLINE_SCHEDULER_PLACEMENT_FAIR_SHARES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/placement/quota_tree.h"

namespace warpline::placement {

// One that wants a part. Units are the caller's.
struct Claim {
  uint64_t wanted = 0;
  uint64_t reserved = 0;
  uint32_t weight = 1;
};

// Divides `amount`: first each gets what it wants of what is reserved for it, and then of the rest
// so that nobody gets more than it wants, and who gets less as much by weight as any other. Rounds
// down.
std::vector<uint64_t> Divide(const std::vector<Claim>& claims, uint64_t amount);

// By tenant, what each should have of `amount` for its own leases, in milli-GPUs. `wanted` is what
// it wants for them; `bytes_per_gpu` says what reserved memory is worth. With `whole_reserves`
// everything that is reserved is taken to be wanted.
std::map<std::string, uint64_t> FairShares(const QuotaTree& quotas,
                                           const std::map<std::string, uint64_t>& wanted,
                                           uint64_t amount, uint64_t bytes_per_gpu,
                                           bool whole_reserves);

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_FAIR_SHARES_H_
