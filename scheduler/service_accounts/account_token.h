// What a Kubernetes ServiceAccount token says, and whether it holds.
//
// A pod has such a token as a file (a projected volume, serviceAccountToken), which its kubelet
// renews. It is a JWT (RFC 7519), signed by the cluster's API server for one audience.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_TOKEN_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_TOKEN_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/service_accounts/cluster_key.h"

namespace warpline::scheduler {

// Whose token it is. The texts are Kubernetes' names: letters, digits, - and dots.
struct ServiceAccount {
  std::string name_space;
  std::string name;
  std::string pod;
  friend bool operator==(const ServiceAccount&, const ServiceAccount&) = default;
};

// What a token must say.
struct AccountTokenRules {
  std::string issuer;    // The API server's --service-account-issuer.
  std::string audience;  // The only one that the token is for.
  // How far the clocks of API server and scheduler may be apart.
  absl::Duration leeway = absl::Seconds(30);
  // The longest time from its making to its end.
  absl::Duration longest_life = absl::Hours(24);
};

// The longest token that is looked at. Those of an API server have 1 to 2 KiB.
inline constexpr size_t kMaxAccountToken = 8192;

// Whether a text is meant as such a token: a JSON object in base64url, and dots. Warpline's own
// credentials have no dots.
bool LooksLikeAccountToken(absl::string_view text);

// Checks the token and returns whose it is. UNAUTHENTICATED with the reason, which is for the
// operator and not for whoever sent the token. The work is bounded by the token's length and one
// signature, and nothing but the header is looked at before the signature holds.
absl::StatusOr<ServiceAccount> OpenAccountToken(absl::string_view token, const ClusterKeys& keys,
                                                const AccountTokenRules& rules, absl::Time now);

// Whether a text can be a namespace's name (RFC 1123: up to 63 letters, digits and -).
bool IsNamespaceName(absl::string_view name);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_TOKEN_H_
