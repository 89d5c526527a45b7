// Whose credential it is that a request for the pool shows, and how often strangers may try.
#ifndef WARPLINE_SCHEDULER_PAGE_SIGN_IN_H_
#define WARPLINE_SCHEDULER_PAGE_SIGN_IN_H_

#include <functional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/page/pool_source.h"
#include "scheduler/tenant_rates.h"

namespace warpline::scheduler::page {

// Returns the credential in an Authorization header ("Bearer CREDENTIAL"); empty for none, or for
// what cannot be one.
std::string BearerCredential(absl::string_view authorization);

// Thread-safe. Each credential is compared first and only a wrong one is counted, so wrong ones of
// whomever keep out nobody who has a right one. Peers may all come from one host, or through one
// proxy; their addresses are no more than a way to tell who guesses. Credentials that were not
// taken lately are compared one at a time: guesses never have more than one thread of the
// scheduler.
class SignIn {
 public:
  static constexpr double kFailuresPerSecond = 5;
  static constexpr double kFailuresAtOnce = 20;
  static constexpr size_t kMostKnown = 256;
  // More than so many have one budget together.
  static constexpr size_t kMostPeers = 64;

  // `source` is borrowed.
  SignIn(PoolSource* source, std::function<absl::Time()> clock)
      : source_(source), clock_(std::move(clock)), failures_(kFailuresPerSecond, kFailuresAtOnce) {}

  // UNAUTHENTICATED for nobody's credential, RESOURCE_EXHAUSTED when `peer` has shown too many of
  // those, UNAVAILABLE when nobody knows now.
  absl::StatusOr<Viewer> ViewerOf(const std::string& credential, const std::string& peer);

 private:
  absl::StatusOr<Viewer> Ask(const std::string& credential, const std::string& hash);
  // Whether the peer may be told that its credential was wrong; counts that.
  bool MayFail(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  PoolSource* const source_;
  const std::function<absl::Time()> clock_;
  // Taken before mu_, and held while the source is asked about what is not in known_.
  Mutex comparing_ ABSL_ACQUIRED_BEFORE(mu_);
  Mutex mu_;
  TenantRates failures_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> peers_ ABSL_GUARDED_BY(mu_);  // Those with a budget of their own.
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);  // Hashes of those that were taken.
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_SIGN_IN_H_
