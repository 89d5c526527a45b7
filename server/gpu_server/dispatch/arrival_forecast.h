// Forecasts when a contender that comes at regular intervals comes next, from its past arrivals.
//
//   ArrivalForecast forecast;
//   forecast.See(wants, works, now_ns);         // At each look.
//   if (forecast.Expects(now_ns, lead_ns)) ...  // It may come at any moment.
//
// A contender arrives when it wants the engine after a millisecond without wanting it, and then
// works. Its period is the median of the latest intervals; there is no period unless most of them
// are near that median. The next arrival is the median of the forecasts that the latest three
// arrivals give, so one late arrival does not move it. An arrival that is missed, because the work
// before it took too long, leaves one interval of two periods, which the medians ignore.
//
// The cost to others is bounded. The contender is expected for at most half of its period. The
// forecast forgets a contender that fails to come three times running, and one that says that it
// waits but does not come to work.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ARRIVAL_FORECAST_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ARRIVAL_FORECAST_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace warpline::dispatch {

// Thread-compatible. Its clock is what See() is told, which does not go backwards.
class ArrivalForecast {
 public:
  // Intervals that are compared, and how many of them may be irregular.
  static constexpr size_t kIntervals = 8;
  static constexpr size_t kIrregular = 2;
  // A contender with a shorter period is always there. One with a longer period finds the engine
  // open (ArbiterOptions::linger_ns), with many milliseconds of work ahead; a forecast would not
  // help it.
  static constexpr int64_t kLeastPeriodNs = 4'000'000;
  static constexpr int64_t kMostPeriodNs = 100'000'000;
  // A contender that is late stays expected for this long, but no longer than an eighth of its
  // period.
  static constexpr int64_t kPatienceNs = 1'000'000;

  // Notes one look at the contender: `wants` says whether it wants the engine, `works` whether it
  // has work in flight or has had since the last look.
  void See(bool wants, bool works, int64_t now_ns);
  // Forgets all arrivals.
  void Forget();

  // Returns the period; 0 while the contender does not come regularly.
  int64_t period_ns() const { return period_ns_; }
  // Returns when the contender should come next. The value means nothing without a period.
  int64_t next_ns() const { return next_ns_; }
  // Returns whether the next arrival is at most `lead_ns` away (and at most three eighths of the
  // period), or was due a moment ago. It goes by the last See().
  bool Expects(int64_t now_ns, int64_t lead_ns) const;

 private:
  int64_t patience_ns() const;
  void Add(int64_t arrival_ns);
  // 0 unless most intervals are near it.
  int64_t Period() const;
  int64_t Next() const;
  int64_t Arrival(size_t ago) const { return arrivals_[(added_ - 1 - ago) % arrivals_.size()]; }

  std::array<int64_t, kIntervals + 1> arrivals_{};  // A ring.
  size_t added_ = 0;
  int64_t wanted_ns_ = 0;   // When it last wanted the engine.
  int64_t pending_ns_ = 0;  // An arrival that has not worked yet; 0 for none.
  int64_t period_ns_ = 0;
  int64_t next_ns_ = 0;
  int missed_ = 0;  // Arrivals that it has missed in a row.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ARRIVAL_FORECAST_H_
