// The operations of one gRPC stream that are under way. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_OPERATIONS_H_
#define WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_OPERATIONS_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "transport/channel_loop.h"

namespace warpline::grpc_internal {

enum class Operation {
  kStart,      // What a server began before the loop ran.
  kRead,       // GrpcStream::Read()
  kWrite,      // GrpcStream::Write()
  kEndWrites,  // GrpcStream::EndWrites()
  kEnd,        // The stream's end: GrpcStream::AwaitEnd(), or what a server asked for
  kBell,       // The alarm that wakes a parked loop
};

// At most one of each kind is under way. tag() is thread-safe.
class StreamOperations {
 public:
  // Says that one is under way from now on, and returns its tag.
  void* Begin(Operation operation) RUNS_ON(channel_loop) {
    under_way_[Index(operation)] = true;
    return tag(operation);
  }
  // The operation whose tag came out of the completion queue. It is not under way any more.
  Operation Complete(void* tag) RUNS_ON(channel_loop) {
    bool* const mark = static_cast<bool*>(tag);
    *mark = false;
    return static_cast<Operation>(mark - under_way_);
  }

  bool under_way(Operation operation) const RUNS_ON(channel_loop) {
    return under_way_[Index(operation)];
  }
  void* tag(Operation operation) { return &under_way_[Index(operation)]; }

 private:
  static constexpr size_t kCount = 6;
  static constexpr size_t Index(Operation operation) { return static_cast<size_t>(operation); }

  bool under_way_[kCount] ABSL_GUARDED_BY(channel_loop) = {};
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_STREAM_STREAM_OPERATIONS_H_
