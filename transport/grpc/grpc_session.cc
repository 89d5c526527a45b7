#include "transport/grpc/grpc_session.h"

#include <utility>

#include "transport/grpc/grpc_args.h"
#include "transport/grpc/grpc_status.h"
#include "transport/grpc/server_credentials.h"
#include "transport/loop_thread.h"

namespace warpline::grpc_internal {
namespace {

// Stands in for the handler that a refused session has not got.
class NoHandler : public ChannelHandler {
 public:
  bool NextFrame(Frame*) override { return false; }
  Accept OnFrame(Frame*) override { return Accept::kTaken; }
  void OnClosed(const absl::Status&) override {}
};

}  // namespace

GrpcSession::GrpcSession(const ChannelOptions& options, size_t max_payload)
    : loop_(StreamSide::kServer, this, &queue_, options, max_payload) {}

GrpcSession::~GrpcSession() {
  if (thread_.joinable()) thread_.join();
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

void GrpcSession::Request(GpuService* service, grpc::ServerCompletionQueue* notifications,
                          AcceptEvent* arrival) {
  context_.AsyncNotifyWhenDone(loop_.end_tag());
  service->RequestSession(&context_, &stream_, &queue_, notifications, arrival);
}

void GrpcSession::Start(Acceptor* acceptor, absl::Status refusal, std::function<void()> done) {
  thread_ = StartLoopThread("wl-chan",
                            [this, acceptor, refusal = std::move(refusal), done = std::move(done)] {
                              Run(acceptor, refusal);
                              done();
                            });
}

void GrpcSession::Run(Acceptor* acceptor, absl::Status refusal) {
  std::unique_ptr<SessionHandler> handler;
  if (refusal.ok()) {
    handler = acceptor->Accept(PeerName(context_), &refusal);
  }
  if (handler == nullptr) {
    if (refusal.ok()) refusal = absl::InternalError("session refused without a reason");
    context_.AddTrailingMetadata(kRefusedKey, "1");
    NoHandler none;
    loop_.Close(refusal);
    loop_.Run(&none);
    return;
  }
  handler->Started(this);
  context_.AddInitialMetadata(kTakenKey, "1");
  stream_.SendInitialMetadata(loop_.ExpectStartTag());
  loop_.Run(handler.get());
}

void GrpcSession::Write(const grpc::ByteBuffer& message, void* tag) {
  stream_.Write(message, grpc::WriteOptions().set_no_compression(), tag);
}

void GrpcSession::EndWrites(const absl::Status& status, void* tag) {
  stream_.Finish(ToGrpcStatus(status), tag);
}

absl::Status GrpcSession::EndStatus() {
  return context_.IsCancelled() ? absl::UnavailableError("connection lost") : absl::OkStatus();
}

}  // namespace warpline::grpc_internal
