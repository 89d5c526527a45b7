#include "server/device/bounded_grids.h"

#include "absl/time/time.h"
#include "common/log/log_budget.h"

namespace warpline::device {
namespace {

constexpr LogKind kLines[] = {{"grids_refused", 8, absl::Minutes(5)}};

// Whether x*y*z is more than the bound; the product may be larger than 64 bits can hold.
bool IsOver(const std::array<uint32_t, 3>& grid) {
  const auto [x, y, z] = grid;
  const uint64_t row = uint64_t{x} * y;
  return z != 0 && row > kMostGridBlocks / z;
}

}  // namespace

bool HasTooManyBlocks(const std::array<uint32_t, 3>& grid) {
  if (!IsOver(grid)) return false;
  static LogBudget* const log = new LogBudget(kLines);
  if (const LogPermit permit = log->Ask(0)) {
    permit.Warning("a launch is refused: a grid of ", grid[0], " x ", grid[1], " x ", grid[2],
                   " blocks, where a device that sessions share takes ", kMostGridBlocks,
                   " at most, so that a session ends soon after it is told to");
  }
  return true;
}

}  // namespace warpline::device
