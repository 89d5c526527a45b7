// A value that threads may read while another one writes it, without any order: a reader gets one
// of the values that were written.
//
//   struct Stream { Relaxed<Device*> device = nullptr; };
//   stream.device = device;  if (stream.device == mine) ...
#ifndef WARPLINE_COMMON_RELAXED_H_
#define WARPLINE_COMMON_RELAXED_H_

#include <atomic>

namespace warpline {

// Thread-safe. T is a number or a pointer.
template <typename T>
class Relaxed {
 public:
  constexpr Relaxed() = default;
  // Both are implicit, so that it is used as a T.
  constexpr Relaxed(T value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  Relaxed(const Relaxed& other) : value_(static_cast<T>(other)) {}
  Relaxed& operator=(const Relaxed& other) { return *this = static_cast<T>(other); }
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator T() const {  // NOLINT(google-explicit-constructor)
    return value_.load(std::memory_order_relaxed);
  }
  T operator->() const { return *this; }

 private:
  std::atomic<T> value_{};
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_RELAXED_H_
