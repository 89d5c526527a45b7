#include "common/loop/loop_affinity.h"

#include <cstdlib>

#include "common/log/log.h"

namespace warpline {

constinit thread_local const LoopAffinity* LoopAffinity::current_ = nullptr;

void LoopAffinity::Fail() {
  LogError("a function of one loop was called on another thread");
  std::abort();
}

LoopScope::LoopScope(LoopAffinity* loop) : loop_(loop), outer_(LoopAffinity::current_) {
  LoopAffinity::current_ = loop;
  loop->threads_.fetch_add(1, std::memory_order_relaxed);
}

LoopScope::~LoopScope() {
  LoopAffinity::current_ = outer_;
  loop_->threads_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace warpline
