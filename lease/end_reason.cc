#include "lease/end_reason.h"

namespace warpline {

EndCause EndCauseOf(uint32_t number) {
  return number <= static_cast<uint32_t>(EndCause::kEpochEnds) ? static_cast<EndCause>(number)
                                                               : EndCause::kOther;
}

std::string ReasonForTenant(const EndReason& reason) {
  // A lease that goes on has no reason.
  if (reason.text.empty()) return "";
  switch (reason.cause) {
    case EndCause::kNamesNobody:
      return reason.text;
    case EndCause::kRevoked:
      return "the operator revoked it";
    case EndCause::kDrained:
      return "its server is being drained";
    case EndCause::kMakesWay:
      return "a request that goes first needs its device";
    case EndCause::kEpochEnds:
      return "the epoch ends, and a request that goes first needs its device";
    case EndCause::kOther:
      break;
  }
  return "the scheduler ended it";
}

std::string ReasonForHolder(const EndReason& reason) {
  const bool operators = reason.cause == EndCause::kRevoked || reason.cause == EndCause::kDrained;
  return operators ? reason.text : ReasonForTenant(reason);
}

}  // namespace warpline
