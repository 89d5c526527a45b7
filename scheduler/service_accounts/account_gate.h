// Lets the pods of a Kubernetes cluster in by their ServiceAccount tokens.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_GATE_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_GATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/service_accounts/account_token.h"
#include "scheduler/service_accounts/cluster_key.h"

namespace warpline::scheduler {

struct AccountGateOptions {
  // The file with the cluster's public keys (ParseClusterKeys()).
  std::string keys_path;
  AccountTokenRules rules;
  // The tenant of tokens whose namespace has none; empty to refuse them.
  std::string default_tenant;
  // The file is looked at again when a token comes and this time has passed.
  absl::Duration look_again = absl::Seconds(1);
  // Of the same time as the API server's.
  std::function<absl::Time()> clock = &absl::Now;
};

// Thread-safe.
class AccountGate {
 public:
  // INVALID_ARGUMENT for a file that is there and holds what is no set of public keys. One that is
  // not there yet may come: until then there are no keys, and the log says so.
  static absl::StatusOr<std::unique_ptr<AccountGate>> Create(AccountGateOptions options);

  // As OpenAccountToken(), by the keys that the file has now. While it is gone or holds something
  // else, those that it had before count, and the log says so.
  absl::StatusOr<ServiceAccount> Open(const std::string& token);

  const std::string& default_tenant() const { return options_.default_tenant; }

 private:
  // What changes when a file is written or replaced: device, inode, size and time. All are 0 for a
  // file that is not there.
  using Stamp = std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>;

  explicit AccountGate(AccountGateOptions options) : options_(std::move(options)) {}

  std::shared_ptr<const ClusterKeys> KeysOfNow();
  // Reads the file if it has changed. NOT_FOUND when it is not there.
  absl::Status Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const AccountGateOptions options_;
  Mutex mu_;
  absl::Time looked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool looked_once_ ABSL_GUARDED_BY(mu_) = false;
  Stamp stamp_ ABSL_GUARDED_BY(mu_);
  // Shared with those who check a token by it while the next ones come.
  std::shared_ptr<const ClusterKeys> keys_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<const ClusterKeys>();
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_ACCOUNT_GATE_H_
