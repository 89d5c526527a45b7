// How many module images, and how many bytes of them, sessions may have stored in a while.
//
// What is stored pushes out what is older and is written to the disk. A worker that a tenant has
// taken over can offer new images as fast as it makes them up, so whoever pays for its session has
// a budget: enough at once for a large program's modules, little in the long run.
#ifndef WARPLINE_SERVER_GPU_SERVER_MODULES_KEEP_RATES_H_
#define WARPLINE_SERVER_GPU_SERVER_MODULES_KEEP_RATES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace warpline::server {

struct KeepRateOptions {
  // At once, and each second in the long run.
  double images = 4096;
  double images_per_second = 2;
  double bytes = 4.0 * (1ull << 30);
  double bytes_per_second = 16.0 * (1ull << 20);
};

// Thread-compatible.
class KeepRates {
 public:
  explicit KeepRates(const KeepRateOptions& options = {}) : options_(options) {}

  // Returns whether an image of `bytes` bytes may be stored for `payer` (LeaseMembership::payer())
  // now, and counts it if so. `now` does not go back.
  bool Take(const std::string& payer, uint64_t bytes, absl::Time now);

  // Those who have not got everything back that they may have.
  size_t payers() const { return budgets_.size(); }

 private:
  struct Budget {
    double images;  // That are left.
    double bytes;
    absl::Time filled;
  };

  void Fill(Budget* budget, absl::Time now) const;

  const KeepRateOptions options_;
  std::map<std::string, Budget> budgets_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MODULES_KEEP_RATES_H_
