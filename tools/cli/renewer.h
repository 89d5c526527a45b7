// Renews a lease, and passes each fresh token on, while programs run under it.
#ifndef WARPLINE_TOOLS_CLI_RENEWER_H_
#define WARPLINE_TOOLS_CLI_RENEWER_H_

#include <atomic>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "proto/leases.pb.h"
#include "tools/cli/lease.h"
#include "tools/cli/token_keeper.h"

namespace warpline::cli {

// Has a thread of its own from its construction until Stop() or Release(). One of these two must be
// called, once and last. Says on stderr when the lease cannot be renewed, is lost, or has to end.
class Renewer {
 public:
  // When the first renewal comes: after the pause that the lease says, or at once, for a lease
  // whose last renewal is some time ago.
  enum class First { kAfterPause, kAtOnce };

  // Both are borrowed. `token` is the lease's latest one.
  Renewer(Lease* lease, TokenKeeper* keeper, std::string token, First first);

  // True once the lease is over, whatever this process does.
  bool lost() const { return lost_.load(); }
  // Ends renewing. Returns the lease's latest token.
  std::string Stop();
  // Ends renewing and gives the lease back.
  void Release();

 private:
  bool SleepFor(absl::Duration pause);
  void Run(absl::Duration first_pause);
  // Takes a failed renewal. Returns false when the lease is over.
  bool GoesOnAfter(const absl::Status& failure);
  // Says when the lease has to end, and when it may stay after all.
  void TellEnd(const warpline_internal::LeaseReply& renewed);

  Lease* const lease_;
  TokenKeeper* const keeper_;
  const absl::Duration pause_;
  // These belong to the thread; after the thread was joined, to the thread that joined it.
  std::string token_;
  bool in_trouble_ = false;
  bool ends_ = false;  // The lease is known to end, for this reason.
  std::string ends_reason_;
  std::atomic<bool> lost_{false};
  Mutex mu_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_RENEWER_H_
