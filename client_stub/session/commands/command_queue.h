// Holds the commands of a session from the threads that append them to the loop that sends them,
// and from there until the server has received them.
//
// One ring holds them all: the commands that wait to be sent and, behind them, those that were sent
// and may have to be sent again. Producers are ordered by a lock; the loop takes no lock.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_QUEUE_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "client_stub/session/waits/spin_mutex.h"
#include "proto/commands.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

class CommandQueue {
 public:
  // The address space of the ring, a power of two; pages come as they are used.
  static constexpr size_t kCapacity = 16u << 20;
  // So much of it Warm() fetches.
  static constexpr size_t kWarmBytes = 4u << 20;
  // A ring that is empty is used from its beginning again once so much of it was used: what fits in
  // it then finds pages that are there, and in the processor's cache.
  static constexpr size_t kRestartBytes = 1u << 20;

  CommandQueue();
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Returns false when there is no memory for the ring; no other function may be called then.
  bool ok() const { return ring_ != nullptr; }

  // Fetches the pages of the ring's beginning. A page that comes when it is first written costs
  // more than copying its bytes, which a program would find in its first few megabytes of copies.
  void Warm();

  // Bounds the bytes that may be sent without being received, and the commands that may be
  // outstanding without being retired. Called once, before the first command. `bytes` is at least
  // kMaxCommandsPayload.
  void SetWindow(uint64_t bytes, uint64_t commands);

  // --- Producers, any thread ---

  // Holds the producers' lock for a scope.
  class Turn;

  // This and the next four are called with a Turn. Returns true when a command of `bytes`
  // (aligned, with its header) fits in the window now, which is by `more` commands larger for it.
  bool HasRoom(size_t bytes, uint64_t more = 0);
  // Waits until the command fits. Returns false when the queue was aborted. While the thread sleeps
  // others have their turns: what it waits for may be a command of theirs.
  bool WaitForRoom(size_t bytes, uint64_t more = 0);
  // Returns the number that Put() will give next.
  uint64_t next_seq() const { return last_seq_.load(std::memory_order_relaxed) + 1; }
  // Returns the most bytes that were put from the ring's beginning on before it was used from there
  // again.
  uint64_t reach() const {
    return std::max(reach_, tail_.load(std::memory_order_relaxed) - gap_end_);
  }
  // Appends a command that HasRoom() or WaitForRoom() allowed.
  void Put(CommandId id, const void* body, size_t body_bytes, std::string_view tail);

  // Returns the number of the latest command. Any thread.
  uint64_t last_seq() const { return last_seq_.load(std::memory_order_acquire); }

  // Ends all waits for room, now and later. Any thread.
  void Abort();

  // Returns true when everything put so far has been received. Any thread.
  bool AllReceived() const;

  // --- The loop ---

  // Fills `payload` with the next kCommands payload, which acknowledges `acked` of the server's
  // frames; returns false when there is nothing to send or the window is used up.
  bool Take(std::string* payload, uint32_t acked = 0) RUNS_ON(channel_loop);
  // Notes that the server has everything up to `seq`. Returns false when that was never sent.
  bool OnReceived(uint64_t seq) RUNS_ON(channel_loop);
  // Begins a new connection to a server that has everything up to `seq`: the rest is sent again.
  // `*again` gets the number of frames that are sent again. Returns false when the server cannot
  // have come so far.
  bool Rewind(uint64_t seq, size_t* again) RUNS_ON(channel_loop);
  // Notes that `count` commands have retired, in whatever order: one stalled stream does not use up
  // the window of the others. Returns false when fewer were sent.
  bool OnRetired(uint64_t count) RUNS_ON(channel_loop);

 private:
  struct SentFrame {
    uint64_t last_seq;
    uint64_t first_seq;
    uint64_t begin;  // Positions in the stream of bytes, not in the ring.
    uint64_t end;
  };

  // Returns the position at which a command is put that would come to `at`: that, or the ring's
  // beginning.
  uint64_t Restart(uint64_t at);
  void Write(uint64_t at, const void* data, size_t bytes);
  void AppendFrame(const SentFrame& frame, uint32_t acked, std::string* payload) const;
  void WakeProducers();

  char* const ring_;

  // Constant once the window is set.
  uint64_t window_bytes_ = 0;
  uint64_t window_commands_ = 0;
  uint64_t ring_limit_ = 0;

  // Producers write these, with the lock.
  alignas(64) SpinMutex producers_;
  std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> last_seq_{0};
  uint64_t known_head_ = 0;  // Copies of head_ and retired_, refreshed when they seem to matter.
  uint64_t known_retired_ = 0;
  uint64_t asked_ = 0;  // Where Restart() last looked whether the ring is empty.
  uint64_t reach_ = 0;  // Up to the latest restart.
  // The stream of bytes has nothing between these. Written while all before it was received, and
  // read by the loop once there is something behind it.
  uint64_t gap_begin_ = 0;
  uint64_t gap_end_ = 0;

  // The loop writes these.
  alignas(64) std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> retired_{0};
  std::atomic<uint64_t> received_seq_{0};
  uint64_t sent_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t sent_seq_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t unreceived_payload_ ABSL_GUARDED_BY(channel_loop) = 0;
  std::deque<SentFrame> sent_frames_ ABSL_GUARDED_BY(channel_loop);

  // How many producers wait for room, and what changes for them.
  alignas(64) std::atomic<uint32_t> producers_waiting_{0};
  std::atomic<uint32_t> progress_{0};
  std::atomic<bool> aborted_{false};
};

class CommandQueue::Turn {
 public:
  explicit Turn(CommandQueue* queue) ABSL_NO_THREAD_SAFETY_ANALYSIS : queue_(queue) {
    queue_->producers_.Lock();
  }
  ~Turn() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_->producers_.Unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  CommandQueue* const queue_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_QUEUE_H_
