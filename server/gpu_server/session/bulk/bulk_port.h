// Where the bulk connections of a session meet its host memory (proto/frames.h): each has a slot,
// puts bytes into the memory and gets bytes out of it.
//
// The memory's descriptor is written and read, not a mapping of it, so that no access can fault and
// no address of the server's is in play.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_PORT_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_PORT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

// Thread-safe. Shared by the session and its bulk channels.
class BulkPort {
 public:
  static constexpr size_t kMostSegments = 16;

  // --- For the channel's side.
  // Gives the channel a slot below kMaxBulkConnections. The one that has it is closed, and neither
  // puts nor gets from now on. False when the session is over. `channel` is borrowed until
  // Detach().
  bool Attach(uint32_t slot, Channel* channel) RUNS_ON(channel_loop);
  void Detach(uint32_t slot, const Channel* channel) RUNS_ON(channel_loop);
  // Writes `bytes` at `va`, or reads what `*bytes` has room for. ABORTED when another channel has
  // the slot, INVALID_ARGUMENT for what is not within one segment of the session's.
  absl::Status Put(uint32_t slot, const Channel* channel, uint64_t va, std::string_view bytes)
      RUNS_ON(channel_loop);
  absl::Status Get(uint32_t slot, const Channel* channel, uint64_t va, std::string* bytes)
      RUNS_ON(channel_loop);
  // Moves out the next frame that was pushed.
  bool Pop(uint32_t slot, const Channel* channel, Frame* frame) RUNS_ON(channel_loop);

  // --- For the control side.
  // The session has a segment; the descriptor is duplicated. False when there are too many, or no
  // descriptor is left.
  bool Add(uint64_t va, uint64_t bytes, int fd);
  // The descriptor of the segment that is exactly this; null when there is none.
  std::shared_ptr<const UniqueFd> SegmentAt(uint64_t va, uint64_t bytes);
  // Ends all channels, after which nothing is put or got, and takes none until Release().
  void Hold(const absl::Status& status);
  void Release();
  struct Segment {
    uint64_t va = 0;
    uint64_t bytes = 0;
    std::shared_ptr<const UniqueFd> fd;
  };
  std::vector<Segment> Segments();
  // It has it no longer.
  void Remove(uint64_t va);
  // Whether another segment can be added.
  bool HasRoom();
  // Queues a frame for the channel in the slot, if there is one.
  void Push(uint32_t slot, Frame frame);
  // The session is over: channels are closed, and none is taken any more.
  void Shut();

 private:
  struct Slot {
    // Held while bytes are moved, so that a channel that takes the slot comes after its
    // predecessor. Before the port's own.
    Mutex mu;
    const Channel* holder ABSL_GUARDED_BY(mu) = nullptr;
    // Tells the channel's loop, which asks all the time, that there is something to pop.
    std::atomic<bool> has_frames{false};
  };
  // What the control side has to do with a slot, and shall not wait for.
  struct Outlet {
    Channel* channel = nullptr;
    std::deque<Frame> frames;
  };
  struct Piece {
    uint64_t bytes = 0;
    std::shared_ptr<const UniqueFd> fd;
  };

  // The descriptor of the segment in which [va, va + bytes) lies, and where in it; null when there
  // is none.
  std::shared_ptr<const UniqueFd> Find(uint64_t va, uint64_t bytes, off_t* offset);

  std::array<Slot, kMaxBulkConnections> slots_;
  Mutex mu_;  // Before the channels' own.
  std::array<Outlet, kMaxBulkConnections> outlets_ ABSL_GUARDED_BY(mu_);
  bool shut_ ABSL_GUARDED_BY(mu_) = false;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint64_t, Piece> segments_ ABSL_GUARDED_BY(mu_);  // By address.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_PORT_H_
