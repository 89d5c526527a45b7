#include "lease/end_reason.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpline {
namespace {

constexpr absl::string_view kNobody[] = {
    "",
    "it has lasted as long as its tenant's leases may",
    "it has no sessions and nobody renewed it",
    "its server was removed from the pool",
    "its tenant was removed",
    "the operator revoked it",
    "the program that held it has ended",
    "the scheduler does not know it",
    "the scheduler has tenants now, and it is of none of them",
};
constexpr absl::string_view kRevoked = "the operator revoked it: ";
constexpr absl::string_view kServer = "server ";
constexpr absl::string_view kEpoch = "the epoch ends, and ";

}  // namespace

std::string ReasonForTenant(absl::string_view reason) {
  if (std::find(std::begin(kNobody), std::end(kNobody), reason) != std::end(kNobody)) {
    return std::string(reason);
  }
  if (absl::StartsWith(reason, kRevoked)) return "the operator revoked it";
  if (absl::StartsWith(reason, kServer)) return "its server is being drained";
  const absl::string_view when = absl::ConsumePrefix(&reason, kEpoch) ? kEpoch : "";
  if (absl::StartsWith(reason, "tenant ")) {
    return absl::StrCat(when, "a request that goes first needs its device");
  }
  return "the scheduler ended it";
}

std::string ReasonForHolder(absl::string_view reason) {
  const bool operators = absl::StartsWith(reason, kRevoked) || absl::StartsWith(reason, kServer);
  return operators ? std::string(reason) : ReasonForTenant(reason);
}

}  // namespace warpline
