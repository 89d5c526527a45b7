#include "guard/rewrite/weights.h"

#include <string_view>
#include <unordered_map>

#include "guard/rewrite/families.h"

namespace warpline::guard {

int64_t WeightOf(const ptx::Instruction& instruction) {
  static const auto& weights =
      *new std::unordered_map<std::string_view, int64_t>{{"nanosleep", 1 << 20},
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
                                                         {"wgmma", 32}};
  const auto found = weights.find(instruction.opcode);
  if (found == weights.end()) return 1;
  const bool moves = instruction.opcode == "ld" || instruction.opcode == "st";
  for (const char* const near : {"shared", "shared::cta", "param", "const"}) {
    if (moves && Has(instruction, near)) return 1;
  }
  return found->second;
}

}  // namespace warpline::guard
