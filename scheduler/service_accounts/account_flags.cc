#include "scheduler/service_accounts/account_flags.h"

#include <string>
#include <utility>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, cluster_keys, "",
          "The public keys by which a Kubernetes cluster signs ServiceAccount tokens, "
          "so that pods can show their tokens as credentials. A file with the JWKS "
          "that the API server serves at /openid/v1/jwks, or with public keys in PEM. "
          "It is read again when it changes. Empty to accept no such tokens.");
ABSL_FLAG(std::string, cluster_issuer, "",
          "With --cluster_keys: the issuer of the cluster's tokens. It is the API "
          "server's --service-account-issuer.");
ABSL_FLAG(std::string, cluster_audience, "warpline",
          "With --cluster_keys: the only audience that a token may be for.");
ABSL_FLAG(std::string, cluster_default_tenant, "",
          "With --cluster_keys: the tenant of all namespaces that no tenant has (`warpline tenant "
          "set NAME --namespaces=LIST`). Empty to refuse their tokens.");

namespace warpline::scheduler {

absl::StatusOr<std::shared_ptr<AccountGate>> AccountGateFromFlags() {
  AccountGateOptions options;
  options.keys_path = absl::GetFlag(FLAGS_cluster_keys);
  options.rules.issuer = absl::GetFlag(FLAGS_cluster_issuer);
  options.rules.audience = absl::GetFlag(FLAGS_cluster_audience);
  options.default_tenant = absl::GetFlag(FLAGS_cluster_default_tenant);
  if (options.keys_path.empty()) {
    if (options.rules.issuer.empty() && options.default_tenant.empty()) return nullptr;
    return absl::InvalidArgumentError(
        "--cluster_issuer and --cluster_default_tenant are of no use without --cluster_keys");
  }
  if (options.rules.issuer.empty()) {
    return absl::InvalidArgumentError(
        "--cluster_keys needs --cluster_issuer: `kubectl get --raw "
        "/.well-known/openid-configuration` says which one it is");
  }
  if (options.rules.audience.empty()) {
    return absl::InvalidArgumentError(
        "--cluster_audience must not be empty: a token for anybody is one for nobody");
  }
  return AccountGate::Create(std::move(options));
}

}  // namespace warpline::scheduler
