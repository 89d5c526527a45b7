// Sends a worker's replies to the ring to the server.
#ifndef WARPLINE_SERVER_WORKER_REPLIES_REPLY_SINK_H_
#define WARPLINE_SERVER_WORKER_REPLIES_REPLY_SINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/progress.h"
#include "proto/wire.h"
#include "transport/shm_board.h"

namespace warpline::worker {

// Takes frames of replies, each of at most kMaxFramePayload. The ring and tests implement it.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  // Waits while there is no room. The frame's bytes are `head` followed by `tail`.
  virtual void Write(std::string_view head, std::string_view tail) = 0;
};

// The bytes of a struct of the wire, as ReplySink::Reply() takes a reply's fields.
template <typename Fields>
std::string_view BytesOf(const Fields& fields) {
  return {reinterpret_cast<const char*>(&fields), sizeof(fields)};
}

// Thread-safe: executors and the decoder reply as they finish, under one lock around the ring,
// which has one writer. It reports retired commands on the session's board as well, if that has
// one.
class ReplySink {
 public:
  // Both are borrowed. `progress` hears of answers.
  ReplySink(FrameWriter* writer, Progress* progress) : writer_(writer), progress_(progress) {}

  void Reply(uint64_t seq, CudaResult result, std::string_view fields = {},
             std::string_view tail = {});
  // Sends `*batch` and the data. Small data joins the batch instead, which then stays unsent, so
  // that the answers to one wait leave as one frame.
  void CopyData(uint64_t seq, uint64_t offset, std::string_view data, std::string* batch);
  void Retired(uint64_t stream, uint64_t seq, uint64_t all_seq, uint64_t count);
  // Sends what was collected, if anything, and empties it.
  void Send(std::string* batch);
  void Freed(uint64_t token);
  void Unmapped(uint64_t token);
  // Sends what kernels printed; empty text says that kernels which print may follow.
  void Output(int descriptor, std::string_view text);
  void Failed(uint64_t seq, CommandId id, CudaResult result, std::string_view what);

  // Count round trips that were decoded and whose answers have not been written yet.
  void Asked() { open_answers_.fetch_add(1); }
  // Notes that `count` answers were sent in batches; Reply() counts its own.
  void Answered(int64_t count) {
    open_answers_.fetch_sub(count);
    progress_->Notify();
  }
  bool AllAnswered() const { return open_answers_.load() == 0; }

  // Whether the client sleeps until something is reported about `stream` on the board.
  bool Awaited(uint64_t stream);
  // From now on reports on the board, and tells the client so. Called once.
  void UseBoard(std::unique_ptr<BoardWriter> board);

  // Nothing is written while muted: the client already has the replies to what is replayed now.
  void SetMuted(bool muted);

 private:
  void Write(std::string_view head, std::string_view tail = {});
  // Puts the reports of complete commands that are among these replies on the board.
  void Report(std::string_view replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  FrameWriter* const writer_;
  Progress* const progress_;
  std::atomic<int64_t> open_answers_{0};
  Mutex mu_;
  bool muted_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<BoardWriter> board_ ABSL_GUARDED_BY(mu_);  // Null for none.
  uint64_t ordered_ ABSL_GUARDED_BY(mu_) = 0;                // Written since the board began.
  uint64_t all_seq_ ABSL_GUARDED_BY(mu_) = 0;                // As reported for the whole session.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_REPLIES_REPLY_SINK_H_
