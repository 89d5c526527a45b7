// Counts the use of time or bytes in the last second.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_USAGE_WINDOW_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_USAGE_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace warpline::dispatch {

// Thread-compatible. Times must not go backwards.
class UsageWindow {
 public:
  static constexpr int64_t kWindowNs = 1'000'000'000;

  void Add(int64_t now_ns, int64_t used) {
    Advance(now_ns);
    parts_[At(part_)] += used;
    sum_ += used;
  }
  int64_t Sum(int64_t now_ns) {
    Advance(now_ns);
    return sum_;
  }
  // Returns the used part of the second, in thousandths, for a window that counts nanoseconds.
  uint32_t Share(int64_t now_ns) {
    return static_cast<uint32_t>(std::clamp<int64_t>(Sum(now_ns) * 1000 / kWindowNs, 0, 1000));
  }

 private:
  static constexpr size_t kParts = 32;
  static constexpr int64_t kPartNs = kWindowNs / kParts;

  static size_t At(int64_t part) { return static_cast<size_t>(part) % kParts; }
  void Advance(int64_t now_ns) {
    const int64_t part = now_ns / kPartNs;
    const int64_t steps = std::min<int64_t>(part - part_, kParts);
    for (int64_t i = 0; i < steps; ++i) {
      int64_t& oldest = parts_[At(part - i)];
      sum_ -= oldest;
      oldest = 0;
    }
    part_ = std::max(part_, part);
  }

  std::array<int64_t, kParts> parts_{};
  int64_t part_ = 0;
  int64_t sum_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_USAGE_WINDOW_H_
