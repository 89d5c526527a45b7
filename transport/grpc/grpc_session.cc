#include "transport/grpc/grpc_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/grpc/base/grpc_args.h"
#include "transport/grpc/base/grpc_status.h"
#include "transport/grpc/listen/server_credentials.h"
#include "transport/loop_thread.h"

namespace warpline::grpc_internal {
namespace {

// A refused client that has not taken its refusal by then is cut off.
constexpr std::chrono::seconds kRefusalLinger{1};

// Stands in for the handler that a refused session has not got.
class NoHandler : public ChannelHandler {
 public:
  bool NextFrame(Frame*) override { return false; }
  Accept OnFrame(Frame*) override { return Accept::kTaken; }
  void OnClosed(const absl::Status&) override {}
};

}  // namespace

GrpcSession::GrpcSession(const ChannelOptions& options, size_t max_payload, TlsSource* tls,
                         GrpcSessionEvents* events)
    : tls_(tls), events_(events), loop_(StreamSide::kServer, this, &queue_, options, max_payload) {}

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

std::string GrpcSession::Peer() const { return PeerName(context_); }

absl::Status GrpcSession::Start(Acceptor* acceptor, const StartThread& start_thread) {
  auto thread = start_thread("wl-chan", [this, acceptor] {
    const LoopScope scope(&channel_loop);
    Run(acceptor);
    events_->OnDone(this);
  });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void GrpcSession::Refuse(const absl::Status& status) {
  context_.AddTrailingMetadata(kRefusedKey, "1");
  stream_.Finish(ToGrpcStatus(status), &refused_tag_);
  refusal_events_ = 2;  // That, and the call's end.
  refuse_until_ = std::chrono::steady_clock::now() + kRefusalLinger;
}

bool GrpcSession::PollRefused() {
  void* tag;
  bool ok;
  while (refusal_events_ > 0 && queue_.AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) ==
                                    grpc::CompletionQueue::GOT_EVENT) {
    --refusal_events_;
  }
  if (refusal_events_ > 0 && !refusal_cut_ && std::chrono::steady_clock::now() >= refuse_until_) {
    refusal_cut_ = true;
    context_.TryCancel();
  }
  return refusal_events_ == 0;
}

std::string GrpcSession::PeerWithUser() const {
  const std::string peer = PeerName(context_);
  if (user_.empty()) return peer;
  const size_t names = std::min(peer.find(' '), peer.size());
  return absl::StrCat("unix:", user_, peer.substr(names));
}

void GrpcSession::Run(Acceptor* acceptor) {
  absl::Status refusal = CheckPeer(context_, tls_);
  std::unique_ptr<SessionHandler> handler;
  if (refusal.ok()) handler = acceptor->Accept(PeerWithUser(), &refusal);
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

void GrpcSession::Close(const absl::Status& status) {
  // While this side still has something to send, the client is still its session's.
  if (!status.ok()) events_->OnEnding(this);
  loop_.Close(status);
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
