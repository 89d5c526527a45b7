// What tenants are told of why a lease ends or has ended. The operator's lists, logs and audits
// have the reason itself, which may name the tenant for which the lease had to go.
#ifndef WARPLINE_LEASE_END_REASON_H_
#define WARPLINE_LEASE_END_REASON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// For all who may see the lease: only words that are known to name nobody are passed on.
//
//   ReasonForTenant("tenant acme needs its device and goes first")
//       == "a request that goes first needs its device"
std::string ReasonForTenant(absl::string_view reason);

// For the holder of the lease, who is also told what the operator said when revoking it or when
// taking its server out.
std::string ReasonForHolder(absl::string_view reason);

}  // namespace warpline

#endif  // WARPLINE_LEASE_END_REASON_H_
