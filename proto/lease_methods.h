// The paths of the methods by which leases are asked for, at a scheduler and at a server alike
// (proto/leases.proto).
#ifndef WARPLINE_PROTO_LEASE_METHODS_H_
#define WARPLINE_PROTO_LEASE_METHODS_H_

namespace warpline {

inline constexpr char kAcquireMethod[] = "/warpline_internal.Leases/Acquire";
inline constexpr char kRenewMethod[] = "/warpline_internal.Leases/Renew";
inline constexpr char kReleaseMethod[] = "/warpline_internal.Leases/Release";
inline constexpr char kWithdrawMethod[] = "/warpline_internal.Leases/Withdraw";

}  // namespace warpline

#endif  // WARPLINE_PROTO_LEASE_METHODS_H_
