#include "server/gpu_server/moves/sent_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lease/token.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "transport/channel_loop.h"

namespace warpline::server {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

// The channel to the other server.
class Sending : public ChannelHandler {
 public:
  explicit Sending(std::string hello) : hello_(std::move(hello)) {}

  MovePipe* pipe() { return &pipe_; }

  bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override {
    if (!hello_.empty()) {
      *frame = {kMove, std::exchange(hello_, "")};
      return true;
    }
    *frame = {kMoveBytes, ""};
    return pipe_.TryTake(&frame->payload);
  }

  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) override {
    if (frame->kind == kMoveDone && frame->payload.size() <= kMaxTokenText) {
      pipe_.OnFinished(std::move(frame->payload));
    }
    return Accept::kTaken;
  }

  void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) override { pipe_.Detach(status); }

 private:
  std::string hello_ ABSL_GUARDED_BY(channel_loop);
  MovePipe pipe_;
};

// All parts follow each other in the pipe.
class PipeSink : public PartSink {
 public:
  explicit PipeSink(MovePipe* pipe) : pipe_(pipe) {}

  absl::Status Begin(const std::string&) override { return absl::OkStatus(); }
  absl::Status Add(std::string bytes) override { return pipe_->Put(std::move(bytes)); }
  absl::Status End() override { return absl::OkStatus(); }

  // Puts the size and the bytes.
  absl::Status AddManifest(const std::string& bytes) {
    const uint64_t size = bytes.size();
    absl::Status added = Add(std::string(reinterpret_cast<const char*>(&size), sizeof(size)));
    for (size_t done = 0; done < bytes.size() && added.ok(); done += kPieceBytes) {
      added = Add(bytes.substr(done, kPieceBytes));
    }
    return added;
  }

 private:
  MovePipe* const pipe_;
};

absl::Status SendAll(MovePipe* pipe, std::vector<SessionCut>* sessions, const SwapSpace* space) {
  PipeSink sink(pipe);
  for (SessionCut& cut : *sessions) {
    DescribeParts(&cut);
    absl::Status added = sink.AddManifest(cut.manifest.SerializeAsString());
    if (added.ok()) added = AddParts(cut, space, &sink);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

}  // namespace

// Has the stop end a pipe, for as long as it lives.
class MoveStopScope {
 public:
  MoveStopScope(MoveStop* stop, MovePipe* pipe) : stop_(stop) {
    MutexLock lock(&stop_->mu_);
    stop_->pipe_ = pipe;
    if (stop_->stopped_) pipe->Close(absl::CancelledError("the server is shutting down"));
  }
  ~MoveStopScope() {
    MutexLock lock(&stop_->mu_);
    stop_->pipe_ = nullptr;
  }

 private:
  MoveStop* const stop_;
};

void MoveStop::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  if (pipe_ != nullptr) pipe_->Close(absl::CancelledError("the server is shutting down"));
}

absl::StatusOr<std::string> SendSessions(const MoveDialer& dial, const std::string& endpoint,
                                         const std::string& ticket,
                                         std::vector<SessionCut>* sessions, const SwapSpace* space,
                                         MoveStop* stop, bool* certain) {
  warpline_internal::MoveHello hello;
  hello.set_ticket(ticket);
  hello.set_sessions(static_cast<uint32_t>(sessions->size()));
  Sending sending(hello.SerializeAsString());
  *certain = true;
  auto channel = dial(endpoint, &sending);
  if (!channel.ok()) return channel.status();
  sending.pipe()->Attach(channel->get());
  const MoveStopScope scope(stop, sending.pipe());
  absl::Status sent = SendAll(sending.pipe(), sessions, space);
  // Without the last byte it has not taken them over.
  if (sent.ok()) {
    *certain = false;
    auto token = sending.pipe()->AwaitFinished();
    if (token.ok()) return token;
    sent = token.status();
  }
  return absl::Status(sent.code(), absl::StrCat(endpoint, ": ", sent.message()));
}

}  // namespace warpline::server
