// Who asks the scheduler for leases: the tenant whose credential came with a request. A credential
// is the random word that an operator was given for the tenant, or the token of a ServiceAccount in
// one of the tenant's namespaces.
#ifndef WARPLINE_SCHEDULER_CALLERS_H_
#define WARPLINE_SCHEDULER_CALLERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/audit_log.h"
#include "common/log/keyed_log_budget.h"
#include "scheduler/records.h"
#include "scheduler/service_accounts/account_gate.h"
#include "scheduler/service_accounts/account_token.h"

namespace warpline::scheduler {

// What is known of somebody without looking at the tenants.
struct Caller {
  std::string credential;
  // Whose token the credential is, which holds.
  std::optional<ServiceAccount> account;

  // " service_account=NAMESPACE/NAME pod=POD", or nothing.
  std::string WhoForLog() const;
};

// Thread-safe.
class Callers {
 public:
  // `accounts` may be null, and so may `audit`, which must outlive this.
  Callers(std::shared_ptr<AccountGate> accounts, audit::AuditLog* audit);

  // Checks signatures and does not look at the tenants, so that no lock needs to be held.
  // PERMISSION_DENIED for a token that does not hold: why, the log and the audit say, and not the
  // status, which is for whoever sent it. INVALID_ARGUMENT for what is no credential. `peer` is as
  // Acceptor::Accept() gets it; the log and the audit name it, and each peer has a budget there.
  absl::StatusOr<Caller> Identify(const std::string& credential, const std::string& peer);

  // UNAUTHENTICATED for one who has to show a credential first, PERMISSION_DENIED for one whose
  // credential is no tenant's.
  absl::StatusOr<TenantRecord> TenantOf(const std::vector<TenantRecord>& tenants,
                                        const Caller& caller, bool local) const;

 private:
  const std::shared_ptr<AccountGate> accounts_;
  audit::AuditLog* const audit_;
  KeyedLogBudget log_;  // By PeerUnit().
};

// INVALID_ARGUMENT when the tenant's namespaces are none or too many, FAILED_PRECONDITION when
// another one of `tenants` has one of them.
absl::Status CheckNamespacesOf(const TenantRecord& tenant,
                               const std::vector<TenantRecord>& tenants);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_CALLERS_H_
