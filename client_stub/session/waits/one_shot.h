// A wait for one event that is expected to last microseconds: the waiter looks at memory for a
// while before it sleeps, and the signaller enters the kernel only for a sleeper.
#ifndef WARPLINE_CLIENT_STUB_SESSION_WAITS_ONE_SHOT_H_
#define WARPLINE_CLIENT_STUB_SESSION_WAITS_ONE_SHOT_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace warpline::stub {

inline void CpuPause() { __builtin_ia32_pause(); }

// Sleeps while `*word` is `value`; may return early.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr,
          0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr,
          nullptr, 0);
}

// Calls `done` until it returns true or `limit` has passed; returns its last result.
template <typename Done>
bool SpinUntil(std::chrono::nanoseconds limit, const Done& done) {
  if (done()) return true;
  if (limit.count() <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 16; ++i) {
      CpuPause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// One thread waits and one signals, once. The waiter may destroy the object as soon as Wait()
// returns: the signaller touches it last in the exchange, and a wake-up of an address that is no
// longer in use is harmless.
class OneShot {
 public:
  void Signal() {
    if (state_.exchange(kDone, std::memory_order_acq_rel) == kAsleep) FutexWakeAll(&state_);
  }

  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }

  void Wait(std::chrono::nanoseconds spin) {
    if (SpinUntil(spin, [this] { return done(); })) return;
    uint32_t expected = kPending;
    state_.compare_exchange_strong(expected, kAsleep, std::memory_order_acq_rel);
    while (!done()) FutexWait(&state_, kAsleep);
  }

 private:
  enum : uint32_t { kPending, kAsleep, kDone };
  std::atomic<uint32_t> state_{kPending};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_WAITS_ONE_SHOT_H_
