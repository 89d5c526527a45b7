// Whether draws are 1 more often than they are expected to be: Page's cumulative sum test
// ("Continuous Inspection Schemes", Biometrika 41, 1954) of "with the expected probability" against
// "with one that is greater by `excess`".
//
//   DriftEvidence drift(0.2);
//   for (...) drift.Draw(seen, expected, 0.25, 0, 18);
//   if (drift.evidence() > 12) ...
//
// The evidence is the logarithm of the likelihood ratio since the draws last looked as expected,
// and never below 0. Of draws that are as expected it comes to `e` by chance once in about exp(e)
// draws of weight 1. It grows where they exceed what is expected by more than about half of
// `excess`.
//
// Thread-compatible.
#ifndef WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIFT_EVIDENCE_H_
#define WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIFT_EVIDENCE_H_

#include <algorithm>
#include <cmath>

namespace warpline::server {

class DriftEvidence {
 public:
  explicit DriftEvidence(double excess) : excess_(excess) {}

  // `seen` is 0 or 1, or between them for a mean of some draws; `expected` is a probability.
  // Draws that depend on each other weigh less than 1 each. The evidence stays between the two
  // bounds.
  void Draw(double seen, double expected, double weight, double least, double most) {
    // Neither hypothesis may say "never" or "always": the driver's clock and ours differ.
    const double null = std::clamp(expected, 0.05, 0.95);
    const double other = std::min(null + excess_, 0.99);
    const double ratio =
        seen * std::log(other / null) + (1 - seen) * std::log((1 - other) / (1 - null));
    evidence_ = std::clamp(evidence_ + weight * ratio, least, most);
  }

  double evidence() const { return evidence_; }

 private:
  double excess_;
  double evidence_ = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIFT_EVIDENCE_H_
