// The attacks of tests/guard/escapes.txt, made by a tenant on another one.
#ifndef WARPLINE_TESTS_ATTACK_TIER_ESCAPE_ATTACK_H_
#define WARPLINE_TESTS_ATTACK_TIER_ESCAPE_ATTACK_H_

#include "absl/status/statusor.h"
#include "tests/attack/tier/attack.h"
#include "tests/guard/escapes.h"

namespace warpline::attack {

// Loads the module and runs its kernel, on the neighbour's memory. A kernel that does not end by
// itself still runs on return.
absl::StatusOr<Loot> MakeEscape(const guard::Escape& escape, Home* home, const TierTarget& target);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_ESCAPE_ATTACK_H_
