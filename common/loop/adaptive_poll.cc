#include "common/loop/adaptive_poll.h"

#include <sched.h>

#include <atomic>
#include <thread>

namespace warpline {
namespace {

// A thread that rests so long did not have its processor meanwhile. Interrupts are shorter, and
// slices of the processor longer.
constexpr std::chrono::microseconds kTaken{300};
// How long a loop yields after that.
constexpr std::chrono::milliseconds kYield{50};
// Threads that are awake with a loop on one host: its session's in other processes.
constexpr unsigned kThreadsOfLoop = 4;

std::atomic<unsigned> awake{0};  // Loops of this process.

unsigned Processors() {
  static const unsigned processors = std::thread::hardware_concurrency();
  return processors;
}

}  // namespace

bool FewProcessors() { return Processors() <= 4; }

void Relax(bool yield) {
  if (yield) {
    sched_yield();
  } else {
    for (int i = 0; i < 4; ++i) __builtin_ia32_pause();
  }
}

AdaptivePoll::AdaptivePoll(std::chrono::nanoseconds longest) : longest_(longest) {
  awake.fetch_add(1, std::memory_order_relaxed);
}

AdaptivePoll::~AdaptivePoll() { awake.fetch_sub(1, std::memory_order_relaxed); }

AdaptivePoll::Sleep::Sleep(AdaptivePoll* poll) : poll_(poll) {
  awake.fetch_sub(1, std::memory_order_relaxed);
}

AdaptivePoll::Sleep::~Sleep() {
  awake.fetch_add(1, std::memory_order_relaxed);
  poll_->Found(Clock::now());
}

bool AdaptivePoll::yields(Clock::time_point now) const {
  return FewProcessors() || now < yields_until_ ||
         awake.load(std::memory_order_relaxed) * kThreadsOfLoop > Processors();
}

void AdaptivePoll::Rest() {
  const Clock::time_point begin = Clock::now();
  Relax(yields(begin));
  const Clock::time_point end = Clock::now();
  if (end - begin >= kTaken) yields_until_ = end + kYield;
}

}  // namespace warpline
