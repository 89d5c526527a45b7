// How a channel's loop sleeps without losing a wake-up. It is an event count of one loop and many
// wakers:
//
//   loop                                   waker
//   1. Announce()    state = parked        1. make something available (append to a queue)
//   2. look again for something to do      2. Signal(): if state == parked, state = signalled
//   3. nothing: block                         and, having won that exchange, ring the bell
//   4. Retract()     state = running
//
// Announce() and Signal() each put a sequentially consistent fence between their two steps, so
// either the loop's second look sees what the waker made available, or the waker sees `parked`.
// While the loop runs, Signal() is a fence and a load.
//
// Exactly one waker wins per park. The bell of that waker may ring after the loop has retracted, so
// Retract() says whether a bell is still to be expected, and the loop announces again only after it
// has heard it. After Retire() no bell rings any more.
#ifndef WARPLINE_TRANSPORT_PARK_STATE_H_
#define WARPLINE_TRANSPORT_PARK_STATE_H_

#include <atomic>

#include "transport/channel_loop.h"

namespace warpline {

// Signal() is thread-safe.
class ParkState {
 public:
  void Announce() RUNS_ON(channel_loop) {
    state_.store(kParked, std::memory_order_relaxed);
    Fence();
  }

  // Returns true when a waker has won and rings, or will ring, the bell once.
  bool Retract() RUNS_ON(channel_loop) {
    return state_.exchange(kRunning, std::memory_order_acq_rel) == kSignalled;
  }

  // Like Retract(), for good.
  bool Retire() RUNS_ON(channel_loop) {
    return state_.exchange(kRetired, std::memory_order_acq_rel) == kSignalled;
  }

  // Returns true when the caller must ring the bell.
  bool Signal() {
    Fence();
    if (state_.load(std::memory_order_relaxed) != kParked) return false;
    int expected = kParked;
    return state_.compare_exchange_strong(expected, kSignalled, std::memory_order_acq_rel);
  }

 private:
  enum : int { kRunning, kParked, kSignalled, kRetired };

#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences. A read-modify-write of one shared variable orders both
  // sides in its eyes, and costs what does not matter there.
  void Fence() { tsan_fence_.fetch_add(1, std::memory_order_seq_cst); }
  std::atomic<int> tsan_fence_{0};
#else
  void Fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

  alignas(64) std::atomic<int> state_{kRunning};
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_PARK_STATE_H_
