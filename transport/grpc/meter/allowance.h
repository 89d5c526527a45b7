// A token bucket. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_ALLOWANCE_H_
#define WARPLINE_TRANSPORT_GRPC_METER_ALLOWANCE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace warpline::grpc_internal {

// Holds at most `most` tokens, at first all of them, and gets `each_second` more. Not thread-safe.
class Allowance {
 public:
  Allowance(double most, double each_second)
      : most_(most), each_second_(each_second), tokens_(most) {}

  // Takes one token. Returns false if there is none.
  bool Take(absl::Time now) {
    if (now > last_) {
      if (last_ != absl::InfinitePast()) Give(absl::ToDoubleSeconds(now - last_) * each_second_);
      last_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }
  void Give(double tokens) { tokens_ = std::min(most_, tokens_ + tokens); }
  // Returns how many tokens are missing.
  double taken() const { return most_ - tokens_; }

 private:
  const double most_;
  const double each_second_;
  double tokens_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_ALLOWANCE_H_
