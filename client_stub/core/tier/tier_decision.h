// Which tier --tier=auto means for a program: guarded, unless its device code or an earlier run
// says that it needs a process of its own.
//
// It is decided before the session opens, and a session never changes its tier. What the decision
// could not know, such as a library that is loaded later, is an error then, and in the record for
// the next run (TierWatch).
#ifndef WARPLINE_CLIENT_STUB_CORE_TIER_TIER_DECISION_H_
#define WARPLINE_CLIENT_STUB_CORE_TIER_TIER_DECISION_H_

#include <string>
#include <utility>
#include <vector>

#include "common/tier/device_code.h"
#include "common/tier/file_survey.h"
#include "common/tier/tier_record.h"
#include "proto/tier.h"

namespace warpline::stub {

struct TierDecision {
  Tier tier = Tier::kIsolated;
  std::string why;  // For people; empty where it is guarded.
  // Files with PTX, which a device has to take.
  std::vector<std::pair<std::string, tier::DeviceCode>> files;
};

// `program` is of IdentifyProgram(). A program of which nothing is known, since it has no device
// code in `files`, is guarded, too: it may compile its kernels when it runs.
TierDecision DecideTier(const std::string& program, const std::vector<std::string>& files,
                        const tier::TierRecord& record, tier::FileSurvey* survey);

// Why a device of compute capability `sm` does not take the program's PTX; empty if it does.
std::string ObstacleOnDevice(const TierDecision& decision, int sm);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TIER_TIER_DECISION_H_
