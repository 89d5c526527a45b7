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
#ifndef WARPLINE_TRANSPORT_GRPC_STREAM_LOOP_H_
#define WARPLINE_TRANSPORT_GRPC_STREAM_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/grpc/wire_codec.h"
#include "transport/park_state.h"

namespace warpline::grpc_internal {

// What differs between the ends of a stream. Called on the loop, except Cancel(), which is
// thread-safe. Each `tag` comes back through the loop's completion queue.
class GrpcStream {
 public:
  virtual ~GrpcStream() = default;
  virtual void Read(grpc::ByteBuffer* message, void* tag) = 0;
  virtual void Write(const grpc::ByteBuffer& message, void* tag) = 0;
  // Ends this side's half of the stream. No write is under way and none follows.
  virtual void EndWrites(const absl::Status& status, void* tag) = 0;
  // Asks for the stream's end, once reads have ended: `tag` comes when all is over. Of the client
  // alone; a server has asked for it before its loop starts.
  virtual void AwaitEnd(void* tag) = 0;
  // How it ended, after the tag of AwaitEnd().
  virtual absl::Status EndStatus() = 0;
  virtual void Cancel() = 0;
};

enum class StreamSide { kClient, kServer };

class StreamLoop {
 public:
  // All borrowed; `stream` and `queue` outlive the loop.
  StreamLoop(StreamSide side, GrpcStream* stream, grpc::CompletionQueue* queue,
             const ChannelOptions& options, size_t max_payload);

  // Runs the stream to its end: every operation has come back and OnClosed() has returned. Leaves
  // the queue empty.
  void Run(ChannelHandler* handler);

  // Thread-safe, also before and after Run().
  void Wake();
  void Close(const absl::Status& status);
  // Ends the stream at once, without a word to the peer.
  void Cancel();

  // For operations started before Run() on the server: the tag of the stream's end, and that of an
  // operation that Run() waits for.
  void* end_tag() { return &end_tag_; }
  void* ExpectStartTag();

 private:
  using Clock = std::chrono::steady_clock;

  enum class Phase {
    kOpen,      // Both directions flow.
    kFlushing,  // What the handler still has is sent, then EndWrites(OK).
    kEnding,    // No more writes; the end of the stream is awaited.
  };

  bool Turn();
  bool Finished() const;
  void TakeRequests();
  bool OfferHeld();
  bool SendNext();
  void MaybeEndWrites();
  void MaybeRead();
  void BeginEnd(const absl::Status& status, std::chrono::milliseconds linger);
  void StopReceiving();
  void FailLocally(const absl::Status& status);

  bool PollQueue();
  void Park();
  void Handle(void* tag, bool ok);
  void OnRead(bool ok);
  void OnReadsEnded();
  absl::Status FinalStatus();

  const StreamSide side_;
  GrpcStream* const stream_;
  grpc::CompletionQueue* const queue_;
  const std::chrono::nanoseconds poll_;
  const size_t max_payload_;

  // Of the loop alone.
  ChannelHandler* handler_ = nullptr;
  Phase phase_ = Phase::kOpen;
  grpc::ByteBuffer incoming_;
  FrameDecoder decoder_;
  Frame received_;
  bool held_ = false;        // received_ was refused with kLater.
  bool receiving_ = true;    // Else what still arrives is dropped.
  bool end_writes_ = false;  // EndWrites(end_writes_status_) is due once no write is under way.
  bool cut_ = false;         // This side cancelled the stream.
  bool ended_ = false;
  bool reads_ended_ = false;
  bool read_pending_ = false;
  bool write_pending_ = false;
  bool end_writes_pending_ = false;
  bool end_asked_ = false;
  bool start_pending_ = false;
  bool bell_pending_ = false;
  absl::Status end_writes_status_;
  absl::Status local_status_;  // Why this side ended the stream, when not in order.
  absl::Status peer_close_;
  Clock::time_point linger_until_ = Clock::time_point::max();

  // Tags are told apart by address.
  char start_tag_ = 0;
  char read_tag_ = 0;
  char write_tag_ = 0;
  char end_writes_tag_ = 0;
  char end_tag_ = 0;
  char bell_tag_ = 0;

  ParkState park_;
  grpc::Alarm bell_;

  std::atomic<bool> has_request_{false};
  Mutex mu_;
  std::optional<absl::Status> close_request_ ABSL_GUARDED_BY(mu_);
  bool cancel_request_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_STREAM_LOOP_H_
