// Reads a text as keys of a cluster, as a token, as the header and as the claims of one that is
// signed well. Nothing that comes in may do more than be refused, and what is let in must say so.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "scheduler/service_accounts/account_token.h"
#include "scheduler/service_accounts/cluster_key.h"
#include "scheduler/service_accounts/testing/test_cluster.h"

namespace {

using warpline::scheduler::AccountTokenRules;
using warpline::scheduler::ClusterKeys;
using warpline::scheduler::TestKey;

const TestKey& Key() {
  static const auto* const key = new TestKey(TestKey::Ec("fuzz"));
  return *key;
}

void Open(const std::string& token, const ClusterKeys& keys) {
  const AccountTokenRules rules = {.issuer = warpline::scheduler::kTestIssuer,
                                   .audience = "warpline"};
  const auto account = warpline::scheduler::OpenAccountToken(
      token, keys, rules, absl::FromUnixSeconds(warpline::scheduler::kTestMade));
  if (!account.ok()) return;
  const bool named = warpline::scheduler::IsNamespaceName(account->name_space) &&
                     !account->name.empty() && !account->pod.empty();
  if (!named) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto keys = warpline::scheduler::ParseClusterKeys(text);
  if (keys.ok()) {
    for (const auto& key : keys->keys) {
      if (key.Signed("x", text)) std::abort();
    }
  }
  static const auto* const own =
      new ClusterKeys(*warpline::scheduler::ParseClusterKeys(warpline::scheduler::Jwks({&Key()})));
  Open(text, *own);
  Open(warpline::scheduler::TestToken(Key(), text, warpline::scheduler::TestClaims().dump()), *own);
  Open(warpline::scheduler::TestToken(Key(), warpline::scheduler::TestHeader(Key()).dump(), text),
       *own);
  return 0;
}
