// The loop that drives one gRPC stream, the same on both ends. Private to transport/grpc.
//
// It owns a completion queue that no other thread takes events from. A turn of the loop offers a
// held frame again, starts a write when none is under way and the handler has something, starts a
// read when none is under way and nothing is held, and asks the completion queue without waiting.
// After ChannelOptions::poll without a frame it parks in the completion queue (park_state.h); the
// bell is a gRPC alarm.
//
// Memory: one frame held, one frame being written, and what HTTP/2 flow control lets the peer send
// ahead (grpc_args.h).
#ifndef WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_LOOP_H_
#define WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstddef>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/close_requests.h"
#include "transport/grpc/base/wire_codec.h"
#include "transport/grpc/stream/grpc_stream.h"
#include "transport/grpc/stream/stream_operations.h"
#include "transport/inbox.h"
#include "transport/linger.h"
#include "transport/park_state.h"

namespace warpline::grpc_internal {

class StreamLoop {
 public:
  // All borrowed; `stream` and `queue` outlive the loop.
  StreamLoop(StreamSide side, GrpcStream* stream, grpc::CompletionQueue* queue,
             const ChannelOptions& options, size_t max_payload);

  // Runs the stream to its end: every operation has come back and OnClosed() has returned. Leaves
  // the queue empty.
  void Run(ChannelHandler* handler) RUNS_ON(channel_loop);

  // Thread-safe, also before and after Run().
  void Wake();
  void Close(const absl::Status& status);
  // Ends the stream at once, without a word to the peer.
  void Cancel();

  // For operations started before Run() on the server: the tag of the stream's end, and that of an
  // operation that Run() waits for.
  void* end_tag() { return operations_.tag(Operation::kEnd); }
  void* ExpectStartTag() RUNS_ON(channel_loop) { return operations_.Begin(Operation::kStart); }

 private:
  using Clock = Linger::Clock;

  enum class Phase {
    kOpen,      // Both directions flow.
    kFlushing,  // What the handler still has is sent, then EndWrites(OK).
    kEnding,    // No more writes; the end of the stream is awaited.
  };

  bool Turn() RUNS_ON(channel_loop);
  bool Finished() const RUNS_ON(channel_loop);
  // Something of this side's half is under way, or it has not begun.
  bool Writing() const RUNS_ON(channel_loop) {
    return operations_.under_way(Operation::kWrite) || operations_.under_way(Operation::kStart);
  }
  void TakeRequests() RUNS_ON(channel_loop);
  bool SendNext() RUNS_ON(channel_loop);
  void MaybeEndWrites() RUNS_ON(channel_loop);
  void MaybeRead() RUNS_ON(channel_loop);
  void BeginEnd(const absl::Status& status, std::chrono::milliseconds linger) RUNS_ON(channel_loop);
  void FailLocally(const absl::Status& status) RUNS_ON(channel_loop);

  bool PollQueue() RUNS_ON(channel_loop);
  void Park() RUNS_ON(channel_loop);
  void Handle(void* tag, bool ok) RUNS_ON(channel_loop);
  void OnRead(bool ok) RUNS_ON(channel_loop);
  void OnReadsEnded() RUNS_ON(channel_loop);
  absl::Status FinalStatus() RUNS_ON(channel_loop);

  const StreamSide side_;
  GrpcStream* const stream_;
  grpc::CompletionQueue* const queue_;
  const std::chrono::nanoseconds poll_;
  const size_t max_payload_;

  ChannelHandler* handler_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  Phase phase_ ABSL_GUARDED_BY(channel_loop) = Phase::kOpen;
  StreamOperations operations_;
  grpc::ByteBuffer incoming_ ABSL_GUARDED_BY(channel_loop);
  FrameDecoder decoder_ ABSL_GUARDED_BY(channel_loop);
  Inbox inbox_ ABSL_GUARDED_BY(channel_loop);
  Linger linger_ ABSL_GUARDED_BY(channel_loop);
  bool cut_ ABSL_GUARDED_BY(channel_loop) = false;  // This side cancelled the stream.
  bool ended_ ABSL_GUARDED_BY(channel_loop) = false;
  bool reads_ended_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> end_writes_
      ABSL_GUARDED_BY(channel_loop);  // EndWrites() is due once no write is under way.
  absl::Status local_status_
      ABSL_GUARDED_BY(channel_loop);  // Why this side ended the stream, when not in order.
  absl::Status peer_close_ ABSL_GUARDED_BY(channel_loop);

  ParkState park_;
  grpc::Alarm bell_;
  CloseRequests requests_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_LOOP_H_
