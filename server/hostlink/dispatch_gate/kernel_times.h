// Learns how long the kernels of a session take.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_KERNEL_TIMES_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_KERNEL_TIMES_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace warpline::dispatch {

// A table of a fixed size: of two kernels that fall on one place, the later one takes it.
// Thread-safe, lock-free. Threads that learn of one kernel at the same time may lose one of their
// values.
class KernelTimes {
 public:
  static constexpr size_t kPlaces = 512;
  // A time is an average over some so many launches.
  static constexpr int64_t kAverageOver = 8;

  // Returns the time of a kernel with this KernelNameHash(); 0 if it is not known.
  int64_t ExpectedNs(uint64_t name) const {
    const Place& place = places_[name % kPlaces];
    if (place.name.load(std::memory_order_acquire) != name) return 0;
    return place.expected_ns.load(std::memory_order_relaxed);
  }

  // Notes that `count` launches took `each_ns`, in the mean.
  void Learn(uint64_t name, int64_t each_ns, uint64_t count) {
    Place& place = places_[name % kPlaces];
    const int64_t known_ns = ExpectedNs(name);
    const auto part = static_cast<int64_t>(std::min<uint64_t>(count, kAverageOver));
    const int64_t now_ns =
        known_ns == 0 ? each_ns : known_ns + (each_ns - known_ns) * part / kAverageOver;
    if (known_ns == 0) place.name.store(0, std::memory_order_relaxed);
    place.expected_ns.store(std::max<int64_t>(now_ns, 1), std::memory_order_relaxed);
    place.name.store(name, std::memory_order_release);
  }

 private:
  struct Place {
    std::atomic<uint64_t> name{0};
    std::atomic<int64_t> expected_ns{0};
  };

  std::array<Place, kPlaces> places_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_GATE_KERNEL_TIMES_H_
