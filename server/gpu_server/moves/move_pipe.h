// The bytes of sessions that move to another server, between a channel's loop and a thread that
// blocks. Each server has one end: at the sender the thread puts bytes in and the loop takes them
// out, and at the receiver it is the other way round.
#ifndef WARPLINE_SERVER_GPU_SERVER_MOVES_MOVE_PIPE_H_
#define WARPLINE_SERVER_GPU_SERVER_MOVES_MOVE_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

// Thread-safe. Outlives the channel, which is why it is shared.
class MovePipe {
 public:
  // The channel's side holds no more than this, and one piece.
  static constexpr size_t kMostBytes = 8u << 20;

  // `channel` is borrowed until Detach(). Called once, on any thread.
  void Attach(Channel* channel);

  // --- The channel's side.
  // The channel has ended with this status.
  void Detach(const absl::Status& status) RUNS_ON(channel_loop);
  // Takes a piece from the channel; false while there is no room.
  bool TryPut(std::string* piece) RUNS_ON(channel_loop);
  // Gives the channel the next piece; false while there is none.
  bool TryTake(std::string* piece) RUNS_ON(channel_loop);
  // Gives the channel the words of Finish(), once.
  bool TakeLast(std::string* words) RUNS_ON(channel_loop);
  // The other server is done, with these words.
  void OnFinished(std::string words) RUNS_ON(channel_loop);

  // --- The thread's side. Errors are those with which the channel ended.
  // Waits for room, and gives the channel a piece of at most 1 MiB.
  absl::Status Put(std::string piece);
  // Waits for `bytes` from the channel.
  absl::Status Read(char* to, size_t bytes);
  // Tells the other server that everything is done.
  void Finish(std::string words);
  // Waits for the other server to say so, and returns its words.
  absl::StatusOr<std::string> AwaitFinished();
  // Ends the channel: the other server gets the status.
  void Close(const absl::Status& status);

 private:
  void WakeChannel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Taken before the channel's own locks.
  Mutex mu_;
  CondVar changed_;
  Channel* channel_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // With which it ended.
  std::optional<std::string> last_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> finished_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> pieces_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // Memory that the pieces take.
  size_t read_ ABSL_GUARDED_BY(mu_) = 0;   // So much of the first piece was read.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MOVES_MOVE_PIPE_H_
