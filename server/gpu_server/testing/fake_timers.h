// Timers whose time is the test's.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_TIMERS_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_TIMERS_H_

#include <map>
#include <utility>

#include "absl/time/time.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class FakeTimers : public Timers {
 public:
  Token RunAfter(absl::Duration delay, Callback callback) override {
    timers_.emplace(std::make_pair(now_ + delay, ++last_), std::move(callback));
    return last_;
  }
  void Remove(Token token) override {
    for (auto it = timers_.begin(); it != timers_.end(); ++it) {
      if (it->first.second != token) continue;
      timers_.erase(it);
      return;
    }
  }

  // Lets time pass: runs what falls due, also of what is set meanwhile, in its order.
  void Advance(absl::Duration by) {
    const absl::Time until = now_ + by;
    while (!timers_.empty() && timers_.begin()->first.first <= until) {
      auto first = timers_.extract(timers_.begin());
      now_ = first.key().first;
      first.mapped()();
    }
    now_ = until;
  }
  bool empty() const { return timers_.empty(); }
  absl::Time now() const { return now_; }

 private:
  absl::Time now_ = absl::UnixEpoch();
  Token last_ = 0;
  std::map<std::pair<absl::Time, Token>, Callback> timers_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_TIMERS_H_
