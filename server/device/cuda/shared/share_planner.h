// Who of those who share a device works, and on which of its multiprocessors.
//
//   SharePlanner planner(contexts.slots());
//   const std::unique_ptr<SharePlanner::Seat> seat = planner.Join(0);
//   seat->Use(&stream_use, blocks);   // Before each operation is issued.
//   SlotRange on = seat->place();     // Where to issue it.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/device/cuda/shared/share_plan.h"

namespace warpline::device {

// Thread-safe. It outlives its seats.
//
// A session works while it launches kernels or they run, and for a short time after; it then rests,
// and after a long time without any operation it is absent. What it wants is what its streams'
// largest grids can use together: a grid runs on no more multiprocessors than it has blocks. A plan
// is made when somebody begins to work or wants more, at once, and otherwise a few times a second.
// Slots are coarse: a part of 12 multiprocessors is 16 in one window and 8 in the next.
// A kernel that runs through a whole window runs for long.
class SharePlanner {
 public:
  // Milliseconds of a clock that only rises.
  using Clock = int64_t (*)();
  static int64_t CoarseClock();

  // A session that has launched nothing for so long rests, and its former grids are forgotten.
  static constexpr int64_t kWindowMs = 250;
  // Who has a kernel that runs for so long keeps an even part at most for itself.
  static constexpr int64_t kStayMs = 10'000;
  // A session that has issued nothing for so long is absent.
  static constexpr int64_t kPresenceMs = 60'000;
  // What an operation uses of which that is not known.
  static constexpr uint64_t kAll = UINT64_MAX;

  // The largest grid that one stream launched lately. Thread-safe.
  class StreamUse {
   private:
    friend class SharePlanner;
    std::atomic<uint64_t> window_{0};
    std::atomic<uint64_t> blocks_{0};
  };

  // A session's place. Thread-safe.
  class Seat {
   public:
    ~Seat() { planner_->Leave(this); }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    SlotRange place() const { return Unpacked(place_.load(std::memory_order_acquire)); }
    // Whether it may never have the whole device.
    bool limited() const { return most_ > 0; }
    // An operation is about to be issued to the stream, whose kernels have so many blocks; 0 for
    // one without kernels.
    void Use(StreamUse* stream, uint64_t blocks) { planner_->OnUse(this, stream, blocks); }
    // Where kernels that were launched are under way, as seen now; none for nowhere.
    void SetBusy(SlotSet busy) { busy_.store(busy, std::memory_order_relaxed); }
    SlotSet busy() const { return busy_.load(std::memory_order_relaxed); }

   private:
    friend class SharePlanner;
    Seat(SharePlanner* planner, int most, int weight)
        : planner_(planner), most_(most), weight_(weight) {}

    SharePlanner* const planner_;
    const int most_;
    const int weight_;
    std::atomic<uint32_t> place_{0};
    std::atomic<int64_t> used_ms_{0};  // The last operation; 0 for none yet.
    std::atomic<uint64_t> blocks_{0};  // Of this window: the sum of the streams' largest grids.
    std::atomic<int> planned_{0};      // The multiprocessors that the plan reckons with.
    std::atomic<SlotSet> busy_{0};
    // Guarded by the planner's mu_: the blocks of the window before, or, while nothing new is
    // launched, of what runs; and where that is.
    uint64_t blocks_before_ = 0;
    SlotRange pinned_;
    int64_t pinned_since_ms_ = 0;
    int owed_ = 0;  // ShareDemand::owed.
  };

  explicit SharePlanner(std::vector<int> slots, Clock clock = &CoarseClock);
  SharePlanner(const SharePlanner&) = delete;
  SharePlanner& operator=(const SharePlanner&) = delete;

  // Begins another window if this one's time is over, as operations do.
  void Look() { LookAt(clock_()); }
  // Adds a session that may have at most so many multiprocessors, 0 for all, and has them by its
  // weight where others want them.
  std::unique_ptr<Seat> Join(int most, int weight = 1);

 private:
  static uint32_t Packed(const SlotRange& range) { return uint32_t{range.begin} << 16 | range.end; }
  static SlotRange Unpacked(uint32_t packed) {
    return {static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed)};
  }

  void Leave(Seat* seat);
  void OnUse(Seat* seat, StreamUse* stream, uint64_t blocks);
  void LookAt(int64_t now) {
    if (now >= window_end_.load(std::memory_order_relaxed)) NextWindow(now);
  }
  void NextWindow(int64_t now);
  // Counts by how much the plan of the window that is over misses the parts of those who could have
  // used more than they had.
  void NoteRounding() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Plan(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The multiprocessors that so many blocks can use.
  int Wanted(uint64_t blocks) const {
    return static_cast<int>(blocks < static_cast<uint64_t>(all_) ? blocks : all_);
  }

  const std::vector<int> slots_;
  const int all_;
  const Clock clock_;
  std::atomic<int64_t> window_end_{0};
  std::atomic<uint64_t> window_{1};
  Mutex mu_;  // No other lock is taken under it, and no call made.
  std::vector<Seat*> seats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_
