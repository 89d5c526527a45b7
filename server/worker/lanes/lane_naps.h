// How long the lanes of a session nap between two looks at what they wait for: the more of them
// nap, the longer each, so that a session of many streams wakes the processor hardly more often
// than one of a few.
#ifndef WARPLINE_SERVER_WORKER_LANES_LANE_NAPS_H_
#define WARPLINE_SERVER_WORKER_LANES_LANE_NAPS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace warpline::worker {

// Thread-safe.
class LaneNaps {
 public:
  // So many lanes nap as if they were alone.
  static constexpr int64_t kUndisturbed = 16;

  // One nap, from its beginning to its end.
  class Nap {
   public:
    // `naps` is borrowed; `alone_ns` is how long the lane would nap alone.
    Nap(LaneNaps* naps, int64_t alone_ns) : naps_(naps) {
      const int64_t lanes = naps->lanes_.fetch_add(1, std::memory_order_relaxed) + 1;
      ns_ = alone_ns * std::max(lanes, kUndisturbed) / kUndisturbed;
    }
    ~Nap() { naps_->lanes_.fetch_sub(1, std::memory_order_relaxed); }
    Nap(const Nap&) = delete;
    Nap& operator=(const Nap&) = delete;

    int64_t ns() const { return ns_; }

   private:
    LaneNaps* const naps_;
    int64_t ns_;
  };

 private:
  std::atomic<int64_t> lanes_{0};  // That nap.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LANE_NAPS_H_
