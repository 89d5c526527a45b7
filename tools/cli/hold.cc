#include "tools/cli/hold.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/lease_folder.h"
#include "common/serving/server_process.h"
#include "common/steady_time.h"
#include "common/version.h"
#include "proto/tier.h"
#include "tools/cli/lease.h"
#include "tools/cli/run.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(15);
constexpr absl::Duration kRetryRenewing = absl::Seconds(2);

int Complain(const absl::Status& status, int code) {
  return cli::Complain("warpline hold", status.message(), code);
}

// Whether the same request may be granted later.
bool MayBeGrantedLater(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted ||
         status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

// Asks again and again, more and more seldom, and for the last time when --wait is over. CANCELLED
// when a signal came first. When --wait is over, RESOURCE_EXHAUSTED where there was no room, and
// UNAVAILABLE where no server answered.
absl::StatusOr<std::unique_ptr<Lease>> Await(const CommandLine& line, const std::string& endpoint,
                                             const EndSignals& signals) {
  const absl::Duration wait = line.Duration("wait", absl::InfiniteDuration());
  const absl::Time until = SteadyNow() + wait;
  std::string said;
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto lease = AcquireFor(line, endpoint, HostName());
    if (lease.ok() || !MayBeGrantedLater(lease.status())) return lease;
    std::string why(lease.status().message());
    const absl::Duration left = until - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      why = absl::StrCat("no lease within ", absl::FormatDuration(wait), ": ", why);
      const bool is_full = lease.status().code() == absl::StatusCode::kResourceExhausted;
      return is_full ? absl::ResourceExhaustedError(why) : absl::UnavailableError(why);
    }
    if (why != said) {
      Complain(absl::UnavailableError(absl::StrCat("waiting: ", why)), 0);
      said = std::move(why);
    }
    if (signals.WaitFor(std::min(pause, left))) {
      return absl::CancelledError("ended while it waited for a lease");
    }
  }
}

// The exit code where there is no lease.
int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return 3;
    case absl::StatusCode::kUnavailable:
      return 4;
    default:
      return 1;
  }
}

HeldLease WhatProgramsNeed(const Lease& lease) {
  HeldLease held;
  held.endpoint = lease.endpoint();
  // A newer driver can do all that clients offer.
  const int driver = std::min(lease.granted().driver_version(), kCudaVersion);
  if (driver > 0) held.driver_version = absl::StrCat(driver);
  const uint32_t tier = lease.granted().tier();
  if (tier < std::size(kTierChoices)) held.tier = std::string(kTierChoices[tier]);
  return held;
}

// Renews until a signal comes, which is OK, or the lease is over.
absl::Status RenewUntilSignal(const std::string& folder, const TokenReaders& readers, Lease* lease,
                              const EndSignals& signals, std::string* token) {
  const absl::Duration interval =
      absl::Milliseconds(std::max<uint32_t>(lease->granted().renew_ms(), 100));
  absl::Duration pause = interval;
  bool in_trouble = false;
  while (!signals.WaitFor(pause)) {
    auto fresh = lease->Renew(*token);
    if (fresh.ok()) {
      *token = fresh->token();
      if (auto status = ReplaceTokenIn(folder, *token, readers); !status.ok()) return status;
      pause = interval;
      in_trouble = false;
      continue;
    }
    const auto code = fresh.status().code();
    if (code == absl::StatusCode::kNotFound || code == absl::StatusCode::kFailedPrecondition) {
      return absl::Status(
          code, absl::StrCat("the lease is lost: ", std::string(fresh.status().message())));
    }
    if (!in_trouble) {
      Complain(absl::UnavailableError(absl::StrCat("the lease cannot be renewed now (",
                                                   fresh.status().message(),
                                                   "): what runs goes on, and it is tried again")),
               0);
    }
    in_trouble = true;
    pause = std::min(interval, kRetryRenewing);
  }
  return absl::OkStatus();
}

}  // namespace

int Hold(const CommandLine& line, const std::string& endpoint) {
  const EndSignals signals;
  const std::string folder = line.Text("folder");
  TokenReaders readers = {.all = line.Has("share_token")};
  if (line.Has("reader")) readers.user = static_cast<uid_t>(line.Number("reader"));
  if (auto status = CheckOwnFolder(folder); !readers.all && !status.ok()) {
    return Complain(absl::InvalidArgumentError(absl::StrCat(
                        status.message(),
                        ": choose a folder of your own (chmod 700), or give --share_token, "
                        "with which all users of this host may use the lease")),
                    2);
  }
  if (auto status = ClearLeaseFolder(folder); !status.ok()) return Complain(status, 2);
  auto lease = Await(line, endpoint, signals);
  if (lease.status().code() == absl::StatusCode::kCancelled) return 0;
  if (!lease.ok()) return Complain(lease.status(), CodeOf(lease.status()));
  std::string token = (*lease)->granted().token();
  absl::Status status = WriteLeaseFolder(folder, WhatProgramsNeed(**lease), token, readers);
  int code = 2;
  if (status.ok()) {
    std::fprintf(stderr, "warpline hold: holds lease %s on %s\n",
                 (*lease)->granted().lease().c_str(), (*lease)->endpoint().c_str());
    status = RenewUntilSignal(folder, readers, lease->get(), signals, &token);
    code = status.ok() ? 0 : 1;
  }
  if (!status.ok()) Complain(status, 0);
  (void)ClearLeaseFolder(folder);
  // When nobody answers, the lease expires by itself.
  (void)(*lease)->Release(token);
  return code;
}

}  // namespace warpline::cli
