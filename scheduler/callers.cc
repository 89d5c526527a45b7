#include "scheduler/callers.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/record.h"
#include "common/crypto/secret.h"
#include "common/serving/listen_address.h"
#include "common/text.h"
#include "scheduler/state_folder.h"

namespace warpline::scheduler {
namespace {

constexpr size_t kMaxCredential = 256;
constexpr size_t kMaxNamespaces = 64;

// Whoever reaches the scheduler may show tokens.
enum CallerLine : size_t { kRefusedTokenLine, kCallerLineCount };
constexpr LogKind kEach[kCallerLineCount] = {{"refused_tokens", 20, absl::Minutes(1)}};
constexpr LogKind kAll[kCallerLineCount] = {{"refused_tokens", 200, absl::Seconds(10)}};

KeyedLogBudgetOptions LogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  return options;
}

std::string AccountName(const ServiceAccount& account) {
  return absl::StrCat(account.name_space, "/", account.name);
}

absl::Status UnknownTenant() {
  return absl::PermissionDeniedError("the scheduler knows no tenant with this credential");
}

absl::StatusOr<TenantRecord> Named(const std::vector<TenantRecord>& tenants,
                                   const std::string& name) {
  for (const TenantRecord& tenant : tenants) {
    if (tenant.name == name) return tenant;
  }
  return UnknownTenant();
}

bool Has(const TenantRecord& tenant, const std::string& name_space) {
  return std::find(tenant.namespaces.begin(), tenant.namespaces.end(), name_space) !=
         tenant.namespaces.end();
}

}  // namespace

std::string Caller::WhoForLog() const {
  if (!account.has_value()) return "";
  return absl::StrCat(" service_account=", AccountName(*account), " pod=", account->pod);
}

Callers::Callers(std::shared_ptr<AccountGate> accounts, audit::AuditLog* audit)
    : accounts_(std::move(accounts)), audit_(audit), log_(LogOptions()) {}

absl::StatusOr<Caller> Callers::Identify(const std::string& credential, const std::string& peer) {
  if (!LooksLikeAccountToken(credential)) {
    if (credential.size() <= kMaxCredential) return Caller{credential, std::nullopt};
    return absl::InvalidArgumentError("a credential is not as long as that");
  }
  if (accounts_ == nullptr) {
    return absl::PermissionDeniedError(
        "the scheduler takes no ServiceAccount tokens: its operator has not given it "
        "--cluster_keys");
  }
  auto account = accounts_->Open(credential);
  if (account.ok()) return Caller{credential, *std::move(account)};
  const std::string reason(account.status().message());
  if (const LogPermit permit = log_.Ask(PeerUnit(peer), kRefusedTokenLine)) {
    permit.Info("refused a ServiceAccount token peer=", peer, " reason=", Quoted(reason));
  }
  if (audit_ != nullptr) {
    audit_->Add(
        {.event = audit::Event::kCredentialRefused, .peer = peer, .texts = {{"reason", reason}}});
  }
  return absl::PermissionDeniedError(
      "the scheduler does not take this ServiceAccount token; its log says why");
}

absl::StatusOr<TenantRecord> Callers::TenantOf(const std::vector<TenantRecord>& tenants,
                                               const Caller& caller, bool local) const {
  if (tenants.empty()) {
    if (!local) {
      return absl::UnauthenticatedError(
          "the scheduler has no tenants yet and takes only programs of its own host: add one with "
          "`warpline tenant add`");
    }
    TenantRecord tenant;
    tenant.name = kDefaultTenant;
    tenant.slices = {kAnySlice};
    return tenant;
  }
  if (caller.account.has_value()) {
    const std::string& name_space = caller.account->name_space;
    for (const TenantRecord& tenant : tenants) {
      if (Has(tenant, name_space)) return tenant;
    }
    if (const std::string& other = accounts_->default_tenant(); !other.empty()) {
      return Named(tenants, other);
    }
    // The token holds, so this tells nobody what they do not know.
    return absl::PermissionDeniedError(absl::StrCat(
        "no tenant of the scheduler has the namespace ", name_space,
        ": its operator gives it to one with `warpline tenant set NAME --namespaces=", name_space,
        "`"));
  }
  if (caller.credential.empty()) {
    return absl::UnauthenticatedError(
        "the scheduler wants a tenant's credential: set WARPLINE_CREDENTIAL_FILE");
  }
  const std::string hash = HashCredential(caller.credential);
  for (const TenantRecord& tenant : tenants) {
    if (EqualSecrets(tenant.credential_hash, hash)) return tenant;
  }
  return UnknownTenant();
}

absl::Status CheckNamespacesOf(const TenantRecord& tenant,
                               const std::vector<TenantRecord>& tenants) {
  if (tenant.namespaces.size() > kMaxNamespaces) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tenant has at most ", kMaxNamespaces, " namespaces"));
  }
  std::set<std::string> seen;
  for (const std::string& name : tenant.namespaces) {
    if (!IsNamespaceName(name)) {
      return absl::InvalidArgumentError(
          "a namespace's name has up to 63 small letters, digits and -");
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("the namespace ", name, " is named twice"));
    }
    for (const TenantRecord& other : tenants) {
      if (other.name == tenant.name || !Has(other, name)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the namespace ", name, " is tenant ", other.name, "'s"));
    }
  }
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
