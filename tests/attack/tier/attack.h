// The tier suite: what a tenant of the guarded tier does to another one, whose session is in the
// same process and has the same context.
//
// A tenant attacks as an unmodified program does: by the driver's API, of Warpline's client. It
// knows all of the other's addresses and handles. An attack says what it brought home.
// tier_suite.py has each made by a process of its own, beside tenants (neighbour.cu) that check
// what is theirs, and looks whether the one that was attacked is as before.
#ifndef WARPLINE_TESTS_ATTACK_TIER_ATTACK_H_
#define WARPLINE_TESTS_ATTACK_TIER_ATTACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tests/attack/tier/home.h"
#include "tests/attack/tier/neighbour_state.h"

namespace warpline::attack {

struct Loot {
  // All that it could read; none of it may be a secret.
  std::vector<uint32_t> words;
  std::string detail;
  // It learned or did something that it should not have, which `detail` says.
  bool got_through = false;
};

struct TierTarget {
  const NeighbourState* neighbour = nullptr;  // The neighbour that is attacked.
  std::string endpoint;                       // The server's.
  std::string successor;                      // The program of successor_main.cc.
};

// An error says that the attack could not be prepared, so that nothing is shown; UNIMPLEMENTED,
// that there is nothing here that it could be made with.
using TierRun = absl::StatusOr<Loot> (*)(Home* home, const TierTarget& target);

struct TierAttack {
  const char* name;
  TierRun run;
};

// By family; each has a file.
absl::Span<const TierAttack> KernelAttacks();
absl::Span<const TierAttack> PrintAttacks();
absl::Span<const TierAttack> GraphAttacks();
absl::Span<const TierAttack> StaleAttacks();
absl::Span<const TierAttack> CallAttacks();
absl::Span<const TierAttack> HandleAttacks();
absl::Span<const TierAttack> TensorMapAttacks();
absl::Span<const TierAttack> ResidueAttacks();

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_ATTACK_H_
