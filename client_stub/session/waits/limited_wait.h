// A wait that ends at a deadline, by a clock that its caller brings.
//
//   if (AwaitWithin(absl::Milliseconds(5), &SteadyNow, done, &absl::SleepFor)) return kSuccess;
#ifndef WARPLINE_CLIENT_STUB_SESSION_WAITS_LIMITED_WAIT_H_
#define WARPLINE_CLIENT_STUB_SESSION_WAITS_LIMITED_WAIT_H_

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace warpline::stub {

// Decides how long a thread that waits may nap between two looks. The naps grow with the wait, and
// none goes beyond the deadline. They begin so short that the processor is not put to a sleep from
// which it takes long to wake. That would be most of the delay of a wait of some milliseconds.
//
// Immutable, and so thread-safe.
class LimitedWait {
 public:
  static constexpr absl::Duration kShortestNap = absl::Microseconds(100);
  static constexpr absl::Duration kLongestNap = absl::Milliseconds(2);
  static constexpr int kNapsOfWait = 64;

  // A wait that begins at `now` and may take as long as `limit`, which may be infinite.
  LimitedWait(absl::Time now, absl::Duration limit) : begin_(now), deadline_(now + limit) {}

  // Returns the nap that a thread may take at `now`; zero once the deadline has come.
  absl::Duration NapAt(absl::Time now) const {
    const absl::Duration left = std::max(deadline_ - now, absl::ZeroDuration());
    return std::min(left, std::clamp((now - begin_) / kNapsOfWait, kShortestNap, kLongestNap));
  }

 private:
  const absl::Time begin_;
  const absl::Time deadline_;
};

// Calls `nap` with the naps of such a wait until `over` or until the deadline has come, by `now`.
// Returns the last result of `over`, which is asked at least once.
inline bool AwaitWithin(absl::Duration limit, absl::FunctionRef<absl::Time()> now,
                        absl::FunctionRef<bool()> over,
                        absl::FunctionRef<void(absl::Duration)> nap) {
  const LimitedWait wait(now(), limit);
  for (;;) {
    if (over()) return true;
    const absl::Duration next = wait.NapAt(now());
    if (next <= absl::ZeroDuration()) return false;
    nap(next);
  }
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_WAITS_LIMITED_WAIT_H_
