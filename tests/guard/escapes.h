// The catalogue of escapes.txt.
#ifndef WARPLINE_TESTS_GUARD_ESCAPES_H_
#define WARPLINE_TESTS_GUARD_ESCAPES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::guard {

struct Escape {
  enum class Treatment : uint8_t { kRefused, kGuarded, kDropped, kEnds };
  int line = 0;  // In the file
  Treatment treatment = Treatment::kRefused;
  bool harms = false;    // Whether the CPU device shows the harm
  bool faults = false;   // Whether it may end the context unless it is hardened
  bool soft = false;     // Whether it is refused if it is to be hardened
  bool loops = false;    // Whether it does not end unless it is told to, and hardened
  bool group = false;    // Whether it wants a block of a warpgroup, 128 threads
  bool grid = false;     // Whether it wants a grid of many blocks
  bool residue = false;  // Whether it looks for what a neighbour left in shared memory
  std::string body;
  std::string text;  // The whole module; its kernel is `k`.
};

// INVALID_ARGUMENT, with the line, for a file that is not as it says at its start.
absl::StatusOr<std::vector<Escape>> ReadEscapes(std::string_view file);

}  // namespace warpline::guard

#endif  // WARPLINE_TESTS_GUARD_ESCAPES_H_
