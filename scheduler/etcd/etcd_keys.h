// The names of the keys in etcd, behind the prefix of the pool.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_KEYS_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_KEYS_H_

namespace warpline::scheduler::etcd_keys {

// The kinds of keys, each of which is followed by a name.
inline constexpr char kTenant[] = "tenants/";
inline constexpr char kSlice[] = "slices/";
inline constexpr char kServer[] = "servers/";
inline constexpr char kCredential[] = "credentials/";
inline constexpr char kCordon[] = "cordons/";
inline constexpr char kAudit[] = "audits/";
inline constexpr char kLease[] = "leases/";
inline constexpr char kMark[] = "ends/";
// What marks are named by.
inline constexpr char kOfTenant[] = "tenant/";
inline constexpr char kOfServer[] = "server/";
// Keys that stand alone.
inline constexpr char kFormat[] = "format";
inline constexpr char kSigningKeys[] = "signing_keys";
inline constexpr char kOperator[] = "operator";

// The one by which a scheduler leads.
inline constexpr char kLeader[] = "leader";

}  // namespace warpline::scheduler::etcd_keys

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_KEYS_H_
