#include "server/gpu_server/dispatch/arrival_forecast.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace warpline::dispatch {
namespace {

// Shorter pauses are those between the parts of one piece of work.
constexpr int64_t kRestNs = 1'000'000;
// An interval is near the period if it differs by no more than this part of it.
constexpr int64_t kNearPart = 8;
constexpr int kMostMissed = 3;

template <size_t kCount>
int64_t Median(std::array<int64_t, kCount> values) {
  const auto middle = values.begin() + kCount / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void ArrivalForecast::See(bool wants, bool works, int64_t now_ns) {
  if (wants) {
    if (now_ns - wanted_ns_ >= kRestNs) pending_ns_ = now_ns;
    wanted_ns_ = now_ns;
    if (works && pending_ns_ != 0) Add(std::exchange(pending_ns_, 0));
  } else if (pending_ns_ != 0) {
    Forget();
  }
  while (period_ns_ != 0 && now_ns > next_ns_ + patience_ns()) {
    next_ns_ += period_ns_;
    // A contender that still wants the engine cannot arrive, so it has missed nothing.
    if (!wants && ++missed_ == kMostMissed) Forget();
  }
}

void ArrivalForecast::Forget() {
  added_ = 0;
  pending_ns_ = 0;
  period_ns_ = 0;
  missed_ = 0;
}

bool ArrivalForecast::Expects(int64_t now_ns, int64_t lead_ns) const {
  return period_ns_ != 0 && now_ns >= next_ns_ - std::min(lead_ns, period_ns_ * 3 / 8) &&
         now_ns <= next_ns_ + patience_ns();
}

int64_t ArrivalForecast::patience_ns() const { return std::min(kPatienceNs, period_ns_ / 8); }

void ArrivalForecast::Add(int64_t arrival_ns) {
  arrivals_[added_++ % arrivals_.size()] = arrival_ns;
  missed_ = 0;
  period_ns_ = added_ < arrivals_.size() ? 0 : Period();
  if (period_ns_ != 0) next_ns_ = Next();
}

int64_t ArrivalForecast::Period() const {
  std::array<int64_t, kIntervals> intervals;
  for (size_t i = 0; i < kIntervals; ++i) intervals[i] = Arrival(i) - Arrival(i + 1);
  const int64_t period_ns = Median(intervals);
  if (period_ns < kLeastPeriodNs || period_ns > kMostPeriodNs) return 0;
  const auto irregular = std::count_if(intervals.begin(), intervals.end(), [&](int64_t interval) {
    return std::abs(interval - period_ns) > period_ns / kNearPart;
  });
  return static_cast<size_t>(irregular) > kIrregular ? 0 : period_ns;
}

int64_t ArrivalForecast::Next() const {
  std::array<int64_t, 3> said;
  for (size_t ago = 0; ago < said.size(); ++ago) {
    const int64_t passed_ns = Arrival(0) - Arrival(ago);
    const int64_t periods = (passed_ns + period_ns_ / 2) / period_ns_ + 1;
    said[ago] = Arrival(ago) + periods * period_ns_;
  }
  return Median(said);
}

}  // namespace warpline::dispatch
