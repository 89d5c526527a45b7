// Bounds the host memory that kernels of one context may take for their threads. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_HOST_BUDGET_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_HOST_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace warpline::cpu {

class HostBudget {
 public:
  explicit HostBudget(uint64_t limit) : limit_(limit) {}
  HostBudget(const HostBudget&) = delete;
  HostBudget& operator=(const HostBudget&) = delete;

  // Returns false when the sum would be more than the limit.
  bool TryReserve(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ || used > limit_ - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Release(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_HOST_BUDGET_H_
