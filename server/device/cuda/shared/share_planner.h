// Plans on which multiprocessors the sessions that share a device run, by which of them work.
//
//   SharePlanner planner(contexts.slots());
//   const std::unique_ptr<SharePlanner::Session> session =
//       planner.Join({.weight = 3, .group = "lease 7"});
//   session->Use(&stream_use, blocks);        // Before each operation is issued.
//   const SlotRange on = session->place();    // The slots to issue it to.
//   session->Arrive(&stream_use, on);         // When the stream has no work elsewhere any more.
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
#include "common/niceness.h"
#include "server/device/cuda/shared/share_plan.h"

namespace warpline::device {

// The part of a device that a session may have.
struct ShareTerms {
  // The most multiprocessors; 0 for all.
  int most = 0;
  // Its weight where other sessions want multiprocessors, too; at least 1.
  int weight = 1;
  // The nice value of the session's client, from 0 to kMostNiceness. While all sessions of a group
  // that work are nice, the group's weight is lowered by the least of their nice values.
  uint32_t niceness = 0;
  // Sessions of the same group share its multiprocessors and its weight, which the first of them
  // sets. Empty for a session by itself.
  std::string group = {};
  // Called with the part of the device's multiprocessors on which the session runs from now on, in
  // thousandths. The call comes with the first plan and after each change, under the planner's
  // lock, so it may only note the number. May be null.
  std::function<void(uint32_t share)> on_share = {};
};

// Thread-safe. It outlives its sessions.
//
// A session works while it launches kernels or its kernels run, and for a short time after. Then it
// rests, and after a long time without any operation it is absent. It wants as many multiprocessors
// as the largest grids of its streams can use together: a grid runs on no more multiprocessors than
// it has blocks. Time is cut into windows (kWindowMs), and each window begins with a plan. Another
// plan is made at once when a session joins, leaves, begins to work, wants more, or is done with
// long-running kernels. A kernel is long-running if it runs through a whole window.
//
// Slots are coarse: a part of 12 multiprocessors is 16 in one window and 8 in the next. A group's
// use also differs from its plan, because kernels stay where they were launched, so that a session
// with long kernels moves to a new place later than others. Use is therefore counted by where and
// how long a group's kernels ran. A group that had too much pays for it in later windows, up to a
// second of the device, even if it has rested meanwhile.
//
// The device is divided among groups, and each group's part among its working sessions, so more
// sessions do not earn a group a larger part. Long-running kernels do not either. When they occupy
// the group's part and one more slot, or its limit, the group launches its other kernels on the
// same slots, behind them.
class SharePlanner {
 public:
  // Milliseconds of a clock that only rises.
  using Clock = int64_t (*)();
  static int64_t CoarseClock();

  // The length of a window. A session that launches nothing for this long rests, and its former
  // grids are forgotten.
  static constexpr int64_t kWindowMs = 250;
  // A session keeps others from the slots of its long-running kernels. It loses that right after
  // this time if the slots are more than its even part of its group's part, or if its group then
  // keeps others from more than the group's part.
  static constexpr int64_t kStayMs = 10'000;
  // A session that issues nothing for this long is absent.
  static constexpr int64_t kPresenceMs = 60'000;
  // The number of blocks of an operation for which it is not known.
  static constexpr uint64_t kAll = UINT64_MAX;

  // The largest grid that one stream has launched in the current window. Thread-safe.
  class StreamUse {
   private:
    friend class SharePlanner;
    std::atomic<uint64_t> window_{0};
    std::atomic<uint64_t> blocks_{0};
    std::atomic<uint64_t> arrived_{0};  // The last of its session's moves that it followed.
  };

  class Session;

  // Sessions that share a part of the device. It belongs to the planner.
  struct Group {
    std::string name;  // Empty for a session by itself.
    int most = 0;
    int promised_weight = 1;
    // The promised weight in units of 1 / kUsualNiceWeight, less for the niceness of the sessions
    // that worked at the last plan.
    int weight = kUsualNiceWeight;
    std::vector<Session*> sessions;
    // The sessions that worked at the last plan, and the slots that they were given together.
    std::vector<Session*> working;
    SlotRange place;
    // Milliseconds of a multiprocessor: the group's use in this window, and the amount by which
    // earlier windows fell short of its part, which is below 0 where they exceeded it.
    int64_t had_ms = 0;
    int64_t owed_ms = 0;
    int owed = 0;  // The part of it that this window makes up for (ShareDemand::owed).
    // Values of the last plan: the multiprocessors that the group may have beside others, the slots
    // where it has long-running kernels, and those of them from which it keeps others.
    int part = 0;
    SlotSet held = 0;
    SlotSet kept = 0;
  };

  // A session's place. Thread-safe.
  class Session {
   public:
    ~Session() { planner_->Leave(this); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    SlotRange place() const { return Unpacked(place_.load(std::memory_order_acquire)); }
    // Says that the stream goes on at `place`, the session's place, and has no work under way
    // elsewhere. When the first stream that launched kernels lately arrives, the session runs at
    // the place, too. When all such streams have arrived, or no kernels are seen elsewhere, it runs
    // nowhere else.
    void Arrive(StreamUse* stream, const SlotRange& place) {
      if (Packed(place) == settled_.load(std::memory_order_relaxed)) return;
      if (stream->arrived_.load(std::memory_order_relaxed) ==
          moves_.load(std::memory_order_relaxed)) {
        return;
      }
      planner_->OnArrive(this, stream, place);
    }
    // Says that an operation goes to these slots, which are not those of the place.
    void Stray(SlotSet slots) { planner_->OnStray(this, slots); }
    // True if the session may never have the whole device.
    bool limited() const { return limited_; }
    // Says that an operation is about to be issued to the stream. Its kernels have `blocks` blocks;
    // 0 for an operation without kernels.
    void Use(StreamUse* stream, uint64_t blocks) { planner_->OnUse(this, stream, blocks); }
    // Sets the slots where the session's kernels run, as seen now; 0 for none. The session runs
    // there, whatever its streams have said. When no kernels run, a session that stayed with
    // long-running kernels gives up the slots that it kept from others.
    void SetBusy(SlotSet busy) {
      busy_.store(busy, std::memory_order_relaxed);
      if (busy == 0 && stays_.load(std::memory_order_relaxed)) planner_->EndStay(this);
      const bool settled = settled_.load(std::memory_order_relaxed) != 0;
      if (!settled || (busy & ~SetOf(place())) != 0) planner_->OnSeen(this, busy);
    }
    SlotSet busy() const { return busy_.load(std::memory_order_relaxed); }

   private:
    friend class SharePlanner;
    Session(SharePlanner* planner, Group* group, ShareTerms terms)
        : planner_(planner),
          group_(group),
          limited_(group->most > 0),
          niceness_(terms.niceness),
          on_share_(std::move(terms.on_share)) {}

    SharePlanner* const planner_;
    Group* const group_;  // Guarded by the planner's mu_.
    const bool limited_;
    const uint32_t niceness_;
    const std::function<void(uint32_t)> on_share_;
    std::atomic<uint32_t> place_{0};
    std::atomic<uint32_t> settled_{0};  // Its place once it runs nowhere else; 0 before that.
    std::atomic<uint64_t> moves_{0};    // Number of times that it got another place.
    std::atomic<int64_t> used_ms_{0};   // Time of the last operation; 0 before the first.
    std::atomic<uint64_t> blocks_{0};   // The sum of the streams' largest grids in this window.
    // Numbers of streams that launched kernels in this window, and of those among them that
    // launched none in the window before.
    std::atomic<uint32_t> streams_{0};
    std::atomic<uint32_t> new_streams_{0};
    std::atomic<int> planned_{0};  // The multiprocessors that the plan counts for it.
    std::atomic<SlotSet> busy_{0};
    std::atomic<bool> stays_{false};  // It has a long-running kernel, at `pinned_`.
    // The planner's mu_ guards what follows.
    // Blocks of the window before or, while only earlier kernels run, of those kernels.
    uint64_t blocks_before_ = 0;
    SlotSet runs_ = 0;             // Slots where its kernels may run.
    uint32_t streams_before_ = 0;  // `streams_` of the window before.
    uint32_t arrived_ = 0;         // Streams that followed its last move.
    SlotRange pinned_;             // Slots of its long-running kernels; empty for none.
    int64_t pinned_since_ms_ = 0;
    // True if it keeps others from these slots no more (kStayMs).
    bool overstays_ = false;
    uint32_t share_ = 0;  // The share that on_share_ was told.
  };

  explicit SharePlanner(std::vector<int> slots, Clock clock = &CoarseClock);
  SharePlanner(const SharePlanner&) = delete;
  SharePlanner& operator=(const SharePlanner&) = delete;

  // Begins the next window if this one is over. Operations do that, too.
  void Look() { LookAt(clock_()); }
  std::unique_ptr<Session> Join(ShareTerms terms);

 private:
  static uint32_t Packed(const SlotRange& range) { return uint32_t{range.begin} << 16 | range.end; }
  static SlotRange Unpacked(uint32_t packed) {
    return {static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed)};
  }

  // Returns the group of this name, or a new one.
  Group* GroupOf(const ShareTerms& terms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(Session* session);
  void OnUse(Session* session, StreamUse* stream, uint64_t blocks);
  void OnArrive(Session* session, StreamUse* stream, const SlotRange& place);
  void OnStray(Session* session, SlotSet slots);
  void OnSeen(Session* session, SlotSet busy);
  void LookAt(int64_t now) {
    if (now >= window_end_.load(std::memory_order_relaxed)) NextWindow(now);
  }
  void NextWindow(int64_t now);
  // Plans anew, because the long-running kernels of the session are over.
  void EndStay(Session* session);
  void Pin(Session* session, const SlotRange& range, int64_t now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts the groups' use since it was counted last.
  void NoteHad(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the multiprocessors that the plan counts for the group's working sessions.
  static int64_t PlannedOf(const Group& group);
  // Counts by how much the window that is over missed the parts of groups that could have used more
  // than they had.
  void NoteOwed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Plan(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes which sessions of the group work. Adds those that rest, but are present, to `apart`.
  void See(Group* group, int64_t now, std::vector<Session*>* apart)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes the parts of all working groups, and the slots that they hold and keep.
  void NoteParts(int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteKept(Group* group, bool beside_others, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether the group has all the slots that it may have for long-running kernels.
  bool IsFull(const Group& group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the joint demand of the group's sessions that launch.
  ShareDemand DemandOf(const Group& group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ShareDemand DemandOf(const Session& session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Divides the group's slots among its sessions that launch.
  void Divide(const Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Has the group's sessions that launch do so on the slots of its long-running kernels.
  void Crowd(const Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(Session* session, const SlotRange& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts the use until now, and notes that the session runs on these slots from now on.
  void RunOn(Session* session, SlotSet runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns how many multiprocessors `blocks` blocks can use.
  int Wanted(uint64_t blocks) const {
    return static_cast<int>(blocks < static_cast<uint64_t>(all_) ? blocks : all_);
  }

  const std::vector<int> slots_;
  const int all_;
  const Clock clock_;
  std::atomic<int64_t> window_end_{0};
  std::atomic<uint64_t> window_{1};
  Mutex mu_;  // A leaf. ShareTerms::on_share is all that is called under it.
  std::list<Group> groups_ ABSL_GUARDED_BY(mu_);  // In the order in which they came.
  int64_t noted_ms_ ABSL_GUARDED_BY(mu_) = 0;     // `had_ms` is counted up to then.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLANNER_H_
