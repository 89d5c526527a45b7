#include "common/loop/loop_affinity.h"

#include <cstdlib>

#include "common/log/log.h"

namespace warpline {

constinit thread_local const LoopAffinity* LoopAffinity::current_ = nullptr;

void LoopAffinity::Enter() {
  current_ = this;
  threads_.fetch_add(1, std::memory_order_relaxed);
}

void LoopAffinity::Leave() {
  current_ = nullptr;
  threads_.fetch_sub(1, std::memory_order_relaxed);
}

void LoopAffinity::Fail() {
  LogError("a function of one loop was called on another thread");
  std::abort();
}

}  // namespace warpline
