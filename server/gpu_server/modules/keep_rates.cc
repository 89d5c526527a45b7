#include "server/gpu_server/modules/keep_rates.h"

#include <algorithm>
#include <iterator>

namespace warpline::server {

void KeepRates::Fill(Budget* budget, absl::Time now) const {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - budget->filled));
  budget->images = std::min(options_.images, budget->images + seconds * options_.images_per_second);
  budget->bytes = std::min(options_.bytes, budget->bytes + seconds * options_.bytes_per_second);
  budget->filled = now;
}

bool KeepRates::Take(const std::string& payer, uint64_t bytes, absl::Time now) {
  for (auto known = budgets_.begin(); known != budgets_.end();) {
    Fill(&known->second, now);
    const bool whole =
        known->second.images == options_.images && known->second.bytes == options_.bytes;
    known = whole ? budgets_.erase(known) : std::next(known);
  }
  Budget& budget =
      budgets_.try_emplace(payer, Budget{options_.images, options_.bytes, now}).first->second;
  const auto size = static_cast<double>(bytes);
  if (budget.images < 1 || budget.bytes < size) return false;
  budget.images -= 1;
  budget.bytes -= size;
  return true;
}

}  // namespace warpline::server
