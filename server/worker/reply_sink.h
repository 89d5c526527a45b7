// Where a worker's replies go: the ring to the server.
#ifndef WARPLINE_SERVER_WORKER_REPLY_SINK_H_
#define WARPLINE_SERVER_WORKER_REPLY_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/cuda_result.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace warpline::worker {

// Takes frames of replies, each at most kMaxFramePayload. Implemented by the ring and by tests.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  // Waits while there is no room. The frame's bytes are `head` followed by `tail`.
  virtual void Write(std::string_view head, std::string_view tail) = 0;
};

// Thread-safe: lanes and the decoder reply as they finish, one lock around the ring, which has one
// writer.
class ReplySink {
 public:
  explicit ReplySink(FrameWriter* writer) : writer_(writer) {}

  void Reply(uint64_t seq, CudaResult result, std::string_view fields = {},
             std::string_view tail = {});
  // Sends `*batch` and the data. Small data joins the batch instead, which then stays unsent: what
  // one wait is answered with should leave as one frame.
  void CopyData(uint64_t seq, uint64_t offset, std::string_view data, std::string* batch);
  void Retired(uint64_t stream, uint64_t seq, uint64_t all_seq, uint64_t count);
  // Sends what was collected, if anything, and empties it.
  void Send(std::string* batch);
  void Freed(uint64_t token);
  // What kernels printed; empty text says that kernels which print may follow.
  void Output(int descriptor, std::string_view text);
  void Failed(uint64_t seq, CommandId id, CudaResult result, std::string_view what);

 private:
  void Write(std::string_view head, std::string_view tail = {});

  FrameWriter* const writer_;
  Mutex mu_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_REPLY_SINK_H_
