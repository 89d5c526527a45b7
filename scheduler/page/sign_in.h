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

// Thread-safe. All who ask come from one host, or through one proxy, so they have one budget for
// credentials that were not taken lately; those that were are asked about without it, so that
// somebody who guesses keeps out nobody who has been let in.
class SignIn {
 public:
  static constexpr double kTriesPerSecond = 5;
  static constexpr double kTriesAtOnce = 20;
  static constexpr size_t kMostKnown = 256;

  // `source` is borrowed.
  SignIn(PoolSource* source, std::function<absl::Time()> clock)
      : source_(source), clock_(std::move(clock)), tries_(kTriesPerSecond, kTriesAtOnce) {}

  // UNAUTHENTICATED for nobody's credential, RESOURCE_EXHAUSTED for one too many, UNAVAILABLE when
  // nobody knows now.
  absl::StatusOr<Viewer> ViewerOf(const std::string& credential);

 private:
  PoolSource* const source_;
  const std::function<absl::Time()> clock_;
  Mutex mu_;
  TenantRates tries_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);  // Hashes of those that were taken.
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_SIGN_IN_H_
