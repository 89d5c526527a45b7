// One session of a GrpcServer: its call, its completion queue, its thread and, once the acceptor
// has taken it, its handler. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_SESSION_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_SESSION_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "proto/session_service.grpc.pb.h"
#include "transport/channel.h"
#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/stream/stream_loop.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// Messages stay byte buffers; wire_codec.h parses them.
using GpuService = warpline_internal::Gpu::WithRawMethod_Session<warpline_internal::Gpu::Service>;

// How a session gets its thread: see TryStartLoopThread().
using StartThread =
    std::function<absl::StatusOr<std::thread>(const char* name, const std::function<void()>& body)>;

// Request() and then either Start(), Refuse() or destruction, on the server's accepting thread.
class GrpcSession : public Channel, private GrpcStream {
 public:
  // `tls` is the listener's, borrowed; null for none.
  GrpcSession(const ChannelOptions& options, size_t max_payload, TlsSource* tls);
  // Waits for the session's thread.
  ~GrpcSession() override;

  // Asks gRPC for the next call; `arrival` comes back as the tag in `notifications`.
  void Request(GpuService* service, grpc::ServerCompletionQueue* notifications,
               AcceptEvent* arrival);

  // The call has come. Runs it on a thread of its own: asks `acceptor`, and calls `done` as the
  // very last thing. When `start_thread` has none to give, its status, with nothing done.
  absl::Status Start(Acceptor* acceptor, const StartThread& start_thread,
                     std::function<void()> done);

  // The call has come and is refused, without a thread: PollRefused() has to be called until it
  // returns true, after which nothing of the call is left.
  void Refuse(const absl::Status& status);
  // Does not block.
  bool PollRefused();

  void Wake() override { loop_.Wake(); }
  void Close(const absl::Status& status) override { loop_.Close(status); }

 private:
  void Run(Acceptor* acceptor);

  // GrpcStream
  void Read(grpc::ByteBuffer* message, void* tag) override { stream_.Read(message, tag); }
  void Write(const grpc::ByteBuffer& message, void* tag) override;
  void EndWrites(const absl::Status& status, void* tag) override;
  void AwaitEnd(void*) override {}
  absl::Status EndStatus() override;
  void Cancel() override { context_.TryCancel(); }

  TlsSource* const tls_;
  grpc::CompletionQueue queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  StreamLoop loop_;
  std::thread thread_;

  // Of Refuse().
  int refusal_events_ = 0;  // Still to come.
  std::chrono::steady_clock::time_point refuse_until_;
  bool refusal_cut_ = false;
  char refused_tag_ = 0;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_SESSION_H_
