#include "client_stub/core/tier/tier_decision.h"

#include "absl/strings/str_cat.h"

namespace warpline::stub {

TierDecision DecideTier(const std::string& program, const std::vector<std::string>& files,
                        const tier::TierRecord& record, tier::FileSurvey* survey) {
  TierDecision decision;
  decision.why = record.Find(program);
  if (!decision.why.empty()) {
    decision.why += " in an earlier run";
    return decision;
  }
  for (const std::string& path : files) {
    tier::DeviceCode code = survey->Look(path);
    if (!code.obstacle.empty()) {
      decision.why = absl::StrCat(path, ": ", code.obstacle);
      break;
    }
    if (code.any()) decision.files.emplace_back(path, std::move(code));
  }
  survey->Save();
  if (decision.why.empty()) decision.tier = Tier::kGuarded;
  return decision;
}

std::string ObstacleOnDevice(const TierDecision& decision, int sm) {
  for (const auto& [path, code] : decision.files) {
    const std::string obstacle = tier::ObstacleOn(code, sm);
    if (!obstacle.empty()) return absl::StrCat(path, ": ", obstacle);
  }
  return "";
}

}  // namespace warpline::stub
