// The flags --cluster_keys, --cluster_issuer and so on, by which a scheduler takes ServiceAccount
// tokens.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_FLAGS_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_FLAGS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "scheduler/service_accounts/account_gate.h"

namespace warpline::scheduler {

// Null without --cluster_keys. INVALID_ARGUMENT for flags that do not go together, otherwise as
// AccountGate::Create(). Call after the command line has been parsed.
absl::StatusOr<std::shared_ptr<AccountGate>> AccountGateFromFlags();

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_FLAGS_H_
