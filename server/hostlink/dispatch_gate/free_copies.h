// Decides which of a lease's small copies go without a turn.
//
// A copy of a few kilobytes is over before a turn could be given, so a program that reads back a
// number after each step needs no turns. But a program may cut a large copy into small ones. So
// small copies are free up to a rate of bytes and of copies, and beyond it they need turns. The
// rate is kept by the generic cell rate algorithm (ITU-T I.371), whose state is one number.
// Sessions of one ledger have equal parts of the rate, so more sessions bring the ledger no more.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace warpline::dispatch {

// The free copies of one session in one direction. Thread-safe, lock-free.
class FreeCopies {
 public:
  // Only copies of less than this size are small.
  static constexpr uint64_t kSmallBytes = 64u << 10;
  // The free bytes per second, and at once. The rate is one or two hundredths of the bandwidth
  // between a GPU and its host.
  static constexpr uint64_t kBytesPerSecond = 32u << 20;
  static constexpr uint64_t kBurstBytes = 1u << 20;
  // Each copy counts as at least this size, since it takes some time. So 8,192 copies a second are
  // free.
  static constexpr uint64_t kLeastBytes = 4u << 10;

  // Returns whether a copy of `bytes` is free at this time, and counts it if so. `sessions` is the
  // number of the ledger's sessions; 0 counts as 1.
  bool Take(uint64_t bytes, int64_t now_ns, uint32_t sessions = 1) {
    if (bytes >= kSmallBytes) return false;
    const int64_t cost_ns = TimeOf(std::max(bytes, kLeastBytes) * std::max(sessions, 1u));
    int64_t due_ns = due_ns_.load(std::memory_order_relaxed);
    int64_t next_ns;
    do {
      next_ns = std::max(due_ns, now_ns) + cost_ns;
      if (next_ns - now_ns > TimeOf(kBurstBytes)) return false;
    } while (!due_ns_.compare_exchange_weak(due_ns, next_ns, std::memory_order_relaxed));
    return true;
  }

 private:
  static constexpr int64_t TimeOf(uint64_t bytes) {
    return static_cast<int64_t>(bytes * 1'000'000'000 / kBytesPerSecond);
  }

  // When all copies that were taken would be over at this rate.
  std::atomic<int64_t> due_ns_{0};
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_
