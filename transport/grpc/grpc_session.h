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

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "proto/session_service.grpc.pb.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/stream/stream_loop.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// Messages stay byte buffers; wire_codec.h parses them.
using GpuService = warpline_internal::Gpu::WithRawMethod_Session<warpline_internal::Gpu::Service>;

// How a session gets its thread: see TryStartLoopThread().
using StartThread =
    std::function<absl::StatusOr<std::thread>(const char* name, const std::function<void()>& body)>;

class GrpcSession;

// Is told what becomes of sessions, on any thread, and takes no lock that is held while it asks
// something of them.
class GrpcSessionEvents {
 public:
  virtual ~GrpcSessionEvents() = default;
  // Its handler has admitted the client.
  virtual void OnAdmitted(GrpcSession* session) = 0;
  // Its handler ends it with an error, which the client may be slow to take.
  virtual void OnEnding(GrpcSession* session) = 0;
  // The very last thing that its thread does.
  virtual void OnDone(GrpcSession* session) = 0;
};

// Request() and then either Start(), Refuse() or destruction, on the server's accepting thread.
class GrpcSession : public Channel, private GrpcStream {
 public:
  // `tls` is the listener's, null for none. Both are borrowed.
  GrpcSession(const ChannelOptions& options, size_t max_payload, TlsSource* tls,
              GrpcSessionEvents* events);
  // Waits for the session's thread.
  ~GrpcSession() override;

  // Asks gRPC for the next call; `arrival` comes back as the tag in `notifications`.
  void Request(GpuService* service, grpc::ServerCompletionQueue* notifications,
               AcceptEvent* arrival) RUNS_ON(accept_loop);

  // The call has come. Who the client is, as for Acceptor::Accept().
  std::string Peer() const RUNS_ON(accept_loop);
  // On a unix socket: which user is at the other end, such as "uid=1000". Before Start().
  void SetUser(std::string user) RUNS_ON(accept_loop) { user_ = std::move(user); }
  // gRPC's name for its connection.
  std::string ConnectionName() const RUNS_ON(accept_loop) { return context_.peer(); }
  // Runs the call on a thread of its own: asks `acceptor`. When `start_thread` has none to give,
  // its status, with nothing done.
  absl::Status Start(Acceptor* acceptor, const StartThread& start_thread) RUNS_ON(accept_loop);

  // The call has come and is refused, without a thread: PollRefused() has to be called until it
  // returns true, after which nothing of the call is left.
  void Refuse(const absl::Status& status) RUNS_ON(accept_loop);
  // Does not block.
  bool PollRefused() RUNS_ON(accept_loop);

  // Of the server, which has events of its own for these: closes the session, or ends it at once.
  // Thread-safe, also before and after Start().
  void SendAway(const absl::Status& status) { loop_.Close(status); }
  void Cut() { loop_.Cancel(); }

  const char* transport() const override { return "grpc"; }
  void Wake() override { loop_.Wake(); }
  void Admit() override { events_->OnAdmitted(this); }
  void Close(const absl::Status& status) override;

 private:
  void Run(Acceptor* acceptor) RUNS_ON(channel_loop);
  // With the user in place of a unix socket's name, which says nothing.
  std::string PeerWithUser() const;

  // GrpcStream
  void Read(grpc::ByteBuffer* message, void* tag) RUNS_ON(channel_loop) override {
    stream_.Read(message, tag);
  }
  void Write(const grpc::ByteBuffer& message, void* tag) RUNS_ON(channel_loop) override;
  void EndWrites(const absl::Status& status, void* tag) RUNS_ON(channel_loop) override;
  void AwaitEnd(void*) RUNS_ON(channel_loop) override {}
  absl::Status EndStatus() RUNS_ON(channel_loop) override;
  void Cancel() override { context_.TryCancel(); }

  std::string user_;  // Constant once it has started.
  TlsSource* const tls_;
  GrpcSessionEvents* const events_;
  grpc::CompletionQueue queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  StreamLoop loop_;
  std::thread thread_;

  // Of Refuse().
  int refusal_events_ ABSL_GUARDED_BY(accept_loop) = 0;  // Still to come.
  std::chrono::steady_clock::time_point refuse_until_ ABSL_GUARDED_BY(accept_loop);
  bool refusal_cut_ ABSL_GUARDED_BY(accept_loop) = false;
  char refused_tag_ = 0;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_SESSION_H_
