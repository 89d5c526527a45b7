// How long a channel's loop goes on after it began to end its stream.
#ifndef WARPLINE_TRANSPORT_LINGER_H_
#define WARPLINE_TRANSPORT_LINGER_H_

#include <algorithm>
#include <chrono>

namespace warpline {

// Used on the loop alone. Without end until Start().
class Linger {
 public:
  using Clock = std::chrono::steady_clock;

  // Again, it counts from now.
  void Start(Clock::duration length) { until_ = Clock::now() + length; }

  bool started() const { return until_ != Clock::time_point::max(); }
  bool over(Clock::time_point now) const { return now >= until_; }
  // Once it was started; not below zero.
  Clock::duration left() const { return std::max(until_ - Clock::now(), Clock::duration::zero()); }

 private:
  Clock::time_point until_ = Clock::time_point::max();
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LINGER_H_
