// The names of the keys of a state.
#ifndef WARPLINE_SCHEDULER_STORE_STATE_KEYS_H_
#define WARPLINE_SCHEDULER_STORE_STATE_KEYS_H_

namespace warpline::scheduler::state_keys {

// The kinds of records. A name follows.
inline constexpr char kTenant[] = "tenants/";
inline constexpr char kSlice[] = "slices/";
inline constexpr char kServer[] = "servers/";
inline constexpr char kCredential[] = "credentials/";
inline constexpr char kCordon[] = "cordons/";
inline constexpr char kAudit[] = "audits/";
inline constexpr char kLease[] = "leases/";
inline constexpr char kMark[] = "ends/";
// The beginnings of the names of marks.
inline constexpr char kOfTenant[] = "tenant/";
inline constexpr char kOfServer[] = "server/";
// Keys that stand alone.
inline constexpr char kVersion[] = "version";
inline constexpr char kSigningKeys[] = "signing_keys";
inline constexpr char kOperator[] = "operator";

}  // namespace warpline::scheduler::state_keys

#endif  // WARPLINE_SCHEDULER_STORE_STATE_KEYS_H_
