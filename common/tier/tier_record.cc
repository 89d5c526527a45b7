#include "common/tier/tier_record.h"

#include <cstddef>

#include "absl/strings/escaping.h"

namespace warpline::tier {
namespace {

constexpr size_t kMostObstacle = 200;

}  // namespace

TierRecord::TierRecord(const std::string& folder)
    : lines_({.folder = folder, .name = "tier-record-1"}) {}

std::string TierRecord::Find(const std::string& program) const {
  if (program.empty()) return "";
  const auto lines = lines_.Read();
  const auto found = lines.find(program);
  std::string obstacle;
  if (found == lines.end()) return "";
  // Whatever it says, the program is in the record.
  if (!absl::CUnescape(found->second, &obstacle) || obstacle.empty()) return "it is in the record";
  return obstacle.substr(0, kMostObstacle);
}

bool TierRecord::Add(const std::string& program, std::string_view obstacle) const {
  if (program.empty() || obstacle.empty()) return false;
  return lines_.Put({{program, absl::CEscape(std::string(obstacle.substr(0, kMostObstacle)))}});
}

}  // namespace warpline::tier
