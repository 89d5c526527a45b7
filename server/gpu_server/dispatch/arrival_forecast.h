// When a contender that comes at regular intervals is likely to come next, from when it came
// before.
//
//   ArrivalForecast forecast;
//   forecast.See(wants, works, now_ns);         // At each look.
//   if (forecast.Expects(now_ns, lead_ns)) ...  // It may come at any moment.
//
// It has come when it wants the engine after it has not for a millisecond, and works then. Its
// period is the median of the latest intervals, and there is none unless most of them are near it.
// Where it comes next is the median of what the latest three arrivals say, so that one that was
// late moves nothing. An arrival that was missed, because the work before it took too long, leaves
// an interval of two periods, of which the medians know nothing.
//
// What it may cost others is bounded: the moment in which it is expected is at most half of a
// period, whoever does not come three times running is forgotten, and so is whoever says that it
// waits and does not come to work.
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
  // Whoever comes more often is always there. Whoever comes more seldom finds the engine open, with
  // work of many milliseconds ahead (ArbiterOptions::linger_ns), and this would not help it.
  static constexpr int64_t kLeastPeriodNs = 4'000'000;
  static constexpr int64_t kMostPeriodNs = 100'000'000;
  // For so long after it should have come it is expected, but no longer than an eighth of its
  // period.
  static constexpr int64_t kPatienceNs = 1'000'000;

  // Whether it wants the engine, and whether something of its is, or was, in flight.
  void See(bool wants, bool works, int64_t now_ns);
  // It knows of no arrivals any more.
  void Forget();

  // 0 while it does not come regularly.
  int64_t period_ns() const { return period_ns_; }
  // When it should come next. Of no meaning without a period.
  int64_t next_ns() const { return next_ns_; }
  // Whether that is less than `lead_ns` away, or three eighths of its period, or was a moment ago.
  // As of the last See().
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
  int64_t wanted_ns_ = 0;   // The last time.
  int64_t pending_ns_ = 0;  // It came then and has not worked yet; 0 for no such arrival.
  int64_t period_ns_ = 0;
  int64_t next_ns_ = 0;
  int missed_ = 0;  // How many times running it did not come.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ARRIVAL_FORECAST_H_
