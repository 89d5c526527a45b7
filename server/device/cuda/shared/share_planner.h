// Who of those who share a device works, and on which of its multiprocessors.
//
//   SharePlanner planner(contexts.slots());
//   const std::unique_ptr<SharePlanner::Seat> seat =
//       planner.Join({.weight = 3, .slice = "lease 7"});
//   seat->Use(&stream_use, blocks);        // Before each operation is issued.
//   const SlotRange on = seat->place();    // Where to issue it.
//   seat->Arrive(&stream_use, on);         // When nothing of the stream's is elsewhere any more.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/device/cuda/shared/share_plan.h"

namespace warpline::device {

// What a session may have of a device.
struct ShareTerms {
  // The most multiprocessors; 0 for all.
  int most = 0;
  // By which it has them where others want them, from 1 on.
  int weight = 1;
  // Sessions that name the same slice have its multiprocessors and its weight together, as the
  // first of them says. Empty for a session by itself.
  std::string slice = {};
  // Told what part of the device's multiprocessors it runs on from now on, in thousandths, with the
  // first plan and whenever that changes. Called under the planner's lock: it may note it, and no
  // more. Null for nobody.
  std::function<void(uint32_t share)> on_share = {};
};

// Thread-safe. It outlives its seats.
//
// A session works while it launches kernels or they run, and for a short time after; it then rests,
// and after a long time without any operation it is absent. What it wants is what its streams'
// largest grids can use together: a grid runs on no more multiprocessors than it has blocks. A plan
// is made when somebody begins to work or wants more, or is seen to be done with kernels that ran
// for long, at once, and otherwise a few times a second.
// Slots are coarse: a part of 12 multiprocessors is 16 in one window and 8 in the next. What a plan
// gives and what is had differ: kernels stay where they were launched, and whoever has long ones
// goes over to a new place later than others do. So what a slice had counts by where its kernels
// ran, and for how long; what it had too much it pays for, up to a second of the device, also when
// it has rested meanwhile.
// A kernel that runs through a whole window runs for long.
//
// The device is divided among slices, and what a slice gets among its sessions that work, so that
// more sessions bring a slice no more of the device. Nor do kernels that run for long: a slice that
// has as much for these as its part and a slot, or as its limit, launches others where they are,
// and so behind them.
class SharePlanner {
 public:
  // Milliseconds of a clock that only rises.
  using Clock = int64_t (*)();
  static int64_t CoarseClock();

  // A session that has launched nothing for so long rests, and its former grids are forgotten.
  static constexpr int64_t kWindowMs = 250;
  // Who has a kernel that runs for so long keeps its part at most for itself, and of that an even
  // part among its slice's sessions that work.
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
    std::atomic<uint64_t> arrived_{0};  // The last of its session's moves that it went along with.
  };

  class Seat;

  // Sessions that have a part of the device together. The planner's own.
  struct Slice {
    std::string name;  // Empty for that of a session by itself.
    int most = 0;
    int weight = 1;
    std::vector<Seat*> seats;
    // Those of the last plan that work, and what they were given together.
    std::vector<Seat*> working;
    SlotRange place;
    // What it had in this window, and by how much earlier ones fell short of its part, in
    // milliseconds of a multiprocessor; below 0 by how much they exceeded it.
    int64_t had_ms = 0;
    int64_t owed_ms = 0;
    int owed = 0;  // Of that, what this window makes up for (ShareDemand::owed).
    // Of the last plan: how many multiprocessors it may have beside others, should it want them,
    // where it has kernels that run for long, and where it keeps others from them.
    int part = 0;
    SlotSet held = 0;
    SlotSet kept = 0;
  };

  // A session's place. Thread-safe.
  class Seat {
   public:
    ~Seat() { planner_->Leave(this); }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    SlotRange place() const { return Unpacked(place_.load(std::memory_order_acquire)); }
    // What the stream was issued elsewhere is complete, or nothing was: it goes on there now, which
    // is the place. With the first stream that launched kernels lately the session runs there, too;
    // when all of these have come, or no kernels are seen elsewhere, it runs nowhere else.
    void Arrive(StreamUse* stream, const SlotRange& place) {
      if (Packed(place) == settled_.load(std::memory_order_relaxed)) return;
      if (stream->arrived_.load(std::memory_order_relaxed) ==
          moves_.load(std::memory_order_relaxed)) {
        return;
      }
      planner_->OnArrive(this, stream, place);
    }
    // An operation of the stream's goes to other slots than the place.
    void Stray(SlotSet slots) { planner_->OnStray(this, slots); }
    // Whether it may never have the whole device.
    bool limited() const { return limited_; }
    // An operation is about to be issued to the stream, whose kernels have so many blocks; 0 for
    // one without kernels.
    void Use(StreamUse* stream, uint64_t blocks) { planner_->OnUse(this, stream, blocks); }
    // Where kernels that were launched run, as seen now; none for nowhere. There the session runs,
    // whatever its streams have said. Who stayed where its kernels were has no reason to any more
    // when they are nowhere, and others get what it kept from them.
    void SetBusy(SlotSet busy) {
      busy_.store(busy, std::memory_order_relaxed);
      if (busy == 0 && stays_.load(std::memory_order_relaxed)) planner_->EndStay(this);
      const bool settled = settled_.load(std::memory_order_relaxed) != 0;
      if (!settled || (busy & ~SetOf(place())) != 0) planner_->OnSeen(this, busy);
    }
    SlotSet busy() const { return busy_.load(std::memory_order_relaxed); }

   private:
    friend class SharePlanner;
    Seat(SharePlanner* planner, Slice* slice, std::function<void(uint32_t)> on_share)
        : planner_(planner),
          slice_(slice),
          limited_(slice->most > 0),
          on_share_(std::move(on_share)) {}

    SharePlanner* const planner_;
    Slice* const slice_;  // Guarded by the planner's mu_.
    const bool limited_;
    const std::function<void(uint32_t)> on_share_;
    std::atomic<uint32_t> place_{0};
    std::atomic<uint32_t> settled_{0};  // Its place, where it runs nowhere else; 0 before that.
    std::atomic<uint64_t> moves_{0};    // How often it got another place.
    std::atomic<int64_t> used_ms_{0};   // The last operation; 0 for none yet.
    std::atomic<uint64_t> blocks_{0};   // Of this window: the sum of the streams' largest grids.
    // The streams that launched kernels in this window, and those of them that did not in the one
    // before.
    std::atomic<uint32_t> streams_{0};
    std::atomic<uint32_t> new_streams_{0};
    std::atomic<int> planned_{0};  // The multiprocessors that the plan reckons with.
    std::atomic<SlotSet> busy_{0};
    std::atomic<bool> stays_{false};  // It has a kernel that runs for long: `pinned_` says where.
    // Guarded by the planner's mu_: the blocks of the window before, or, while nothing new is
    // launched, of what runs; and where that is.
    uint64_t blocks_before_ = 0;
    SlotSet runs_ = 0;             // Where its kernels may run.
    uint32_t streams_before_ = 0;  // Of the window before.
    uint32_t arrived_ = 0;         // Streams that went along with its last move.
    SlotRange pinned_;
    int64_t pinned_since_ms_ = 0;
    // They run there for so long, on so much, that it keeps others from these slots no more.
    bool overstays_ = false;
    uint32_t share_ = 0;  // That on_share_ was told.
  };

  explicit SharePlanner(std::vector<int> slots, Clock clock = &CoarseClock);
  SharePlanner(const SharePlanner&) = delete;
  SharePlanner& operator=(const SharePlanner&) = delete;

  // Begins another window if this one's time is over, as operations do.
  void Look() { LookAt(clock_()); }
  std::unique_ptr<Seat> Join(ShareTerms terms);

 private:
  static uint32_t Packed(const SlotRange& range) { return uint32_t{range.begin} << 16 | range.end; }
  static SlotRange Unpacked(uint32_t packed) {
    return {static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed)};
  }

  // Of this name, or a new one.
  Slice* SliceOf(const ShareTerms& terms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(Seat* seat);
  void OnUse(Seat* seat, StreamUse* stream, uint64_t blocks);
  void OnArrive(Seat* seat, StreamUse* stream, const SlotRange& place);
  void OnStray(Seat* seat, SlotSet slots);
  void OnSeen(Seat* seat, SlotSet busy);
  void LookAt(int64_t now) {
    if (now >= window_end_.load(std::memory_order_relaxed)) NextWindow(now);
  }
  void NextWindow(int64_t now);
  // The kernels for which it stayed are over.
  void EndStay(Seat* seat);
  void Pin(Seat* seat, const SlotRange& range, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts what slices had since it was counted last.
  void NoteHad(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The multiprocessors that the plan reckons with for its sessions that work.
  static int64_t PlannedOf(const Slice& slice);
  // Counts by how much the window that is over missed the parts of those who could have used more
  // than they had.
  void NoteOwed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Plan(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes who of the slice works, and adds to `apart` who does not go with it.
  void See(Slice* slice, int64_t now, std::vector<Seat*>* apart) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes the parts of all slices that work, and what they hold and keep.
  void NoteParts(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteKept(Slice* slice, bool beside_others, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether it has all that it may have for kernels that run for long.
  bool IsFull(const Slice& slice) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the slice's sessions that launch want together.
  ShareDemand DemandOf(const Slice& slice) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ShareDemand DemandOf(const Seat& seat) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Divides what the slice was given among them.
  void Divide(const Slice& slice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Has them launch where its kernels run for long.
  void Crowd(const Slice& slice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(Seat* seat, const SlotRange& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What it had until now is counted, and it runs there from now on.
  void RunOn(Seat* seat, SlotSet runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The multiprocessors that so many blocks can use.
  int Wanted(uint64_t blocks) const {
    return static_cast<int>(blocks < static_cast<uint64_t>(all_) ? blocks : all_);
  }

  const std::vector<int> slots_;
  const int all_;
  const Clock clock_;
  std::atomic<int64_t> window_end_{0};
  std::atomic<uint64_t> window_{1};
  Mutex mu_;  // A leaf. ShareTerms::on_share is all that is called under it.
  std::list<Slice> slices_ ABSL_GUARDED_BY(mu_);  // In the order in which they came.
  int64_t noted_ms_ ABSL_GUARDED_BY(mu_) = 0;     // Until when `had_ms` is counted.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_
