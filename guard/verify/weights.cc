#include "guard/verify/weights.h"

#include <string_view>

#include "absl/algorithm/container.h"

namespace warpline::guard {
namespace {

struct Weight {
  std::string_view opcode;
  int64_t weight;
};

// docs/guarded-ptx.md has them with the reasons.
constexpr Weight kWeights[] = {
    {"nanosleep", 1 << 20},
    {"atom", 2048},
    {"red", 2048},
    {"membar", 1024},
    {"fence", 1024},
    {"ld", 32},
    {"ldu", 32},
    {"st", 32},
    {"cp", 32},
    {"mbarrier", 32},
    {"bar", 32},
    {"barrier", 32},
    {"div", 16},
    {"rem", 16},
    {"sqrt", 8},
    {"rsqrt", 8},
    {"rcp", 8},
    {"match", 32},
    {"mma", 32},
    {"wmma", 32},
    {"wgmma", 32},
};
// Memory that is near.
constexpr std::string_view kNear[] = {"shared", "shared::cta", "param", "const"};

}  // namespace

int64_t WeightOf(const Instruction& instruction) {
  const auto* const found = absl::c_find_if(
      kWeights, [&](const Weight& entry) { return entry.opcode == instruction.opcode; });
  if (found == std::end(kWeights)) return 1;
  const bool moves = instruction.opcode == "ld" || instruction.opcode == "st";
  const bool is_near = absl::c_any_of(instruction.modifiers, [](std::string_view modifier) {
    return absl::c_linear_search(kNear, modifier);
  });
  return moves && is_near ? 1 : found->weight;
}

}  // namespace warpline::guard
