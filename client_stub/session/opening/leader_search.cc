#include "client_stub/session/opening/leader_search.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client_stub/session/handshake/handshake.h"
#include "common/steady_time.h"

namespace warpline::stub {
namespace {

// How often in a row an answer may name another place.
constexpr int kMaxHints = 3;
// What one of several addresses gets to take a connection.
constexpr absl::Duration kAttempt = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(100);

// Opens at one address, and where the answers lead from there.
absl::Status OpenFrom(SessionOptions options,
                      const std::function<absl::Status(const SessionOptions&)>& open) {
  absl::Status status = open(options);
  for (int hints = 0; !status.ok() && hints <= kMaxHints; ++hints) {
    const bool by_server = !options.token.empty();
    if (!FollowRedirect(status, &options)) return status;
    // Servers know leases that have moved, and no schedulers.
    if (by_server && options.token.empty()) return status;
    status = open(options);
  }
  return status;
}

}  // namespace

absl::Status OpenWhereLed(const SessionOptions& options,
                          const std::function<absl::Status(const SessionOptions&)>& open) {
  const std::vector<std::string> addresses =
      absl::StrSplit(options.endpoint, ',', absl::SkipWhitespace());
  if (addresses.size() <= 1) return OpenFrom(options, open);
  const absl::Time end = SteadyNow() + options.deadline;
  absl::Status status;
  while (true) {
    for (const std::string& address : addresses) {
      SessionOptions attempt = options;
      attempt.endpoint = address;
      attempt.deadline = std::min(options.deadline, kAttempt);
      status = OpenFrom(attempt, open);
      if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
    }
    if (SteadyNow() + kPause >= end) return status;
    absl::SleepFor(kPause);
  }
}

}  // namespace warpline::stub
