// How much of a lease's small copies goes without a turn.
//
// A copy of a few kilobytes is over before a turn could be given, and a program that reads back a
// number after each step needs none. But a program may cut a large copy into small ones. So small
// copies are free up to a rate, of bytes and of copies, and beyond it they ask as others do: the
// generic cell rate algorithm (ITU-T I.371), whose state is one number. Sessions of one account
// have equal parts of the rate, so that more of them bring it no more.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace warpline::dispatch {

// Those of one session in one direction, of the rate that its account has. Thread-safe, lock-free.
class FreeCopies {
 public:
  // Smaller copies are small.
  static constexpr uint64_t kSmallBytes = 64u << 10;
  // A second, and at once: a hundredth or two of what a GPU's way to the host carries.
  static constexpr uint64_t kBytesPerSecond = 32u << 20;
  static constexpr uint64_t kBurstBytes = 1u << 20;
  // No copy counts as less, since each has its time. So 8,192 copies a second are free.
  static constexpr uint64_t kLeastBytes = 4u << 10;

  // Whether a copy of so many bytes, which is then counted, is free at this time, for one of so
  // many sessions of the account (0 counts as 1).
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

  // When everything that was taken would be over at this rate.
  std::atomic<int64_t> due_ns_{0};
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_FREE_COPIES_H_
