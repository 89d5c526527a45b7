// One gRPC stream as its loop sees it. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_STREAM_GRPC_STREAM_H_
#define WARPLINE_TRANSPORT_GRPC_STREAM_GRPC_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "transport/channel_loop.h"

namespace warpline::grpc_internal {

// What differs between the ends of a stream. Cancel() is thread-safe. Each `tag` comes back through
// the loop's completion queue.
class GrpcStream {
 public:
  virtual ~GrpcStream() = default;
  virtual void Read(grpc::ByteBuffer* message, void* tag) RUNS_ON(channel_loop) = 0;
  virtual void Write(const grpc::ByteBuffer& message, void* tag) RUNS_ON(channel_loop) = 0;
  // Ends this side's half of the stream. No write is under way and none follows.
  virtual void EndWrites(const absl::Status& status, void* tag) RUNS_ON(channel_loop) = 0;
  // Asks for the stream's end, once reads have ended: `tag` comes when all is over. Of the client
  // alone; a server has asked for it before its loop starts.
  virtual void AwaitEnd(void* tag) RUNS_ON(channel_loop) = 0;
  // How it ended, after the tag of AwaitEnd().
  virtual absl::Status EndStatus() RUNS_ON(channel_loop) = 0;
  virtual void Cancel() = 0;
};

enum class StreamSide { kClient, kServer };

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_STREAM_GRPC_STREAM_H_
