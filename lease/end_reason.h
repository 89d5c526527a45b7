// Why a lease ends or has ended, and what tenants are told of it. The operator's lists, logs and
// audits have the text itself, which may name the tenant for which the lease had to go.
#ifndef WARPLINE_LEASE_END_REASON_H_
#define WARPLINE_LEASE_END_REASON_H_

#include <cstdint>
#include <string>

namespace warpline {

// Decides how much of a reason is told. The numbers are kept and sent: they stay, and new ones
// follow. A reader takes one that it does not know for kOther.
enum class EndCause : uint32_t {
  kOther = 0,        // The text may name anybody.
  kNamesNobody = 1,  // The text is for everybody.
  kRevoked = 2,      // The operator revoked the lease; the text may have the operator's words.
  kDrained = 3,      // Its server is being drained; likewise.
  kMakesWay = 4,     // Another request needs its device and goes first.
  kEpochEnds = 5,    // The epoch ends, and another request needs its device.
};

// The cause with this number; kOther for a number that is not known.
EndCause EndCauseOf(uint32_t number);

struct EndReason {
  std::string text;
  EndCause cause = EndCause::kOther;
  friend bool operator==(const EndReason&, const EndReason&) = default;
};

// For all who may see the lease. Only texts that name nobody are passed on.
//
//   ReasonForTenant({"tenant acme needs its device and goes first", EndCause::kMakesWay})
//       == "a request that goes first needs its device"
std::string ReasonForTenant(const EndReason& reason);

// For the holder of the lease, who is also told what the operator said when revoking it or when
// taking its server out.
std::string ReasonForHolder(const EndReason& reason);

}  // namespace warpline

#endif  // WARPLINE_LEASE_END_REASON_H_
