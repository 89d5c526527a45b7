// The timers of a loop, as code that runs on the loop sees them. Tests use timers that they advance
// themselves.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_TIMERS_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_TIMERS_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace warpline {

// Called on the loop only.
class Timers {
 public:
  using Callback = std::function<void()>;
  // Tokens are never reused; 0 is no token.
  using Token = uint64_t;

  virtual ~Timers() = default;
  // Calls `callback` once after `delay`.
  virtual Token RunAfter(absl::Duration delay, Callback callback) = 0;
  // Removes a timer: its callback is not called afterwards, even if it was due. 0 and past tokens
  // are ignored.
  virtual void Remove(Token token) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_TIMERS_H_
