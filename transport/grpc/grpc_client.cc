#include "transport/grpc/grpc_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/channel_loop.h"
#include "transport/grpc/base/grpc_args.h"
#include "transport/grpc/base/grpc_process.h"
#include "transport/grpc/base/grpc_status.h"
#include "transport/grpc/connect/client_channel.h"
#include "transport/grpc/stream/stream_loop.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using grpc_internal::ClientChannels;
using grpc_internal::GrpcStream;
using grpc_internal::StreamLoop;

constexpr char kMethod[] = "/warpline_internal.Gpu/Session";

gpr_timespec GprDeadline(absl::Time when) {
  const absl::Duration left = std::max(when - absl::Now(), absl::ZeroDuration());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(left), GPR_TIMESPAN));
}

grpc::WriteOptions PlainWrite() { return grpc::WriteOptions().set_no_compression(); }

class ClientStream : public GrpcStream {
 public:
  // Both borrowed.
  ClientStream(const std::shared_ptr<grpc::Channel>& channel, grpc::CompletionQueue* queue)
      : queue_(queue), stub_(channel) {
    stream_ = stub_.PrepareCall(&context_, kMethod, queue);
  }

  // Opens the stream and waits for the acceptor's word. `*refused` says that an error is the
  // server's decision, which another attempt would not change. On error nothing is under way.
  absl::Status Open(absl::Time deadline, bool* refused) RUNS_ON(channel_loop) {
    *refused = false;
    stream_->StartCall(this);
    bool taken = Await(deadline);
    if (taken) {
      stream_->ReadInitialMetadata(this);
      taken = Await(deadline) &&
              context_.GetServerInitialMetadata().count(grpc_internal::kTakenKey) != 0;
    }
    if (taken) return absl::OkStatus();
    if (!timed_out_ && absl::Now() >= deadline) timed_out_ = true;
    AwaitEnd(this);
    Await(deadline);
    if (timed_out_) return absl::DeadlineExceededError("no answer");
    *refused = context_.GetServerTrailingMetadata().count(grpc_internal::kRefusedKey) != 0;
    absl::Status status = EndStatus();
    // Not our server, but one that speaks gRPC.
    return status.ok() ? absl::InternalError("the server ended the session at once") : status;
  }

  void Read(grpc::ByteBuffer* message, void* tag) RUNS_ON(channel_loop) override {
    stream_->Read(message, tag);
  }
  void Write(const grpc::ByteBuffer& message, void* tag) RUNS_ON(channel_loop) override {
    stream_->Write(message, PlainWrite(), tag);
  }
  void EndWrites(const absl::Status& status, void* tag) RUNS_ON(channel_loop) override {
    if (status.ok()) {
      stream_->WritesDone(tag);
    } else {
      stream_->WriteLast(grpc_internal::EncodeClose(status), PlainWrite(), tag);
    }
  }
  void AwaitEnd(void* tag) RUNS_ON(channel_loop) override { stream_->Finish(&status_, tag); }
  absl::Status EndStatus() RUNS_ON(channel_loop) override {
    return grpc_internal::FromGrpcStatus(status_);
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  // Waits for the one operation under way, cancelling it at the deadline.
  bool Await(absl::Time deadline) RUNS_ON(channel_loop) {
    void* tag;
    bool ok = false;
    if (queue_->AsyncNext(&tag, &ok, GprDeadline(deadline)) == grpc::CompletionQueue::TIMEOUT) {
      timed_out_ = true;
      Cancel();
      queue_->Next(&tag, &ok);
      return false;
    }
    return ok;
  }

  grpc::CompletionQueue* const queue_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_ ABSL_GUARDED_BY(channel_loop);
  bool timed_out_ = false;
};

// Whether another attempt may end otherwise: the server may be starting.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnknown(status) || absl::IsInternal(status);
}

class GrpcClientChannel : public Channel {
 public:
  GrpcClientChannel(GrpcTarget target, ChannelHandler* handler, const ChannelOptions& options)
      : target_(std::move(target)), handler_(handler), options_(options) {}

  ~GrpcClientChannel() override {
    if (loop_ != nullptr) loop_->Cancel();
    if (thread_.joinable()) thread_.join();
  }

  // Called once, before anything else. After an error the channel is only good for destruction.
  absl::Status Dial(absl::Duration deadline) {
    auto dialled = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> result = dialled->get_future();
    // The loop's thread dials too: gRPC's own threads then inherit its blocked signals, while the
    // caller's thread keeps taking the host's.
    thread_ = StartLoopThread("wl-chan", [this, deadline, dialled] {
      const LoopScope scope(&channel_loop);
      absl::Status status = Connect(absl::Now() + deadline, deadline);
      const bool connected = status.ok();
      dialled->set_value(std::move(status));
      if (connected) loop_->Run(handler_);
      queue_.Shutdown();
      void* tag;
      bool ok;
      while (queue_.Next(&tag, &ok)) {
      }
    });
    return result.get();
  }

  const char* transport() const override { return "grpc"; }
  void Wake() override { loop_->Wake(); }
  void Close(const absl::Status& status) override { loop_->Close(status); }

 private:
  absl::Status Connect(absl::Time until, absl::Duration deadline) RUNS_ON(channel_loop) {
    absl::StatusOr<ClientChannels> made =
        ClientChannels::Make(target_.address, target_.tls.get(), options_, target_.listener_uid);
    if (!made.ok()) return made.status();
    absl::Status last = absl::UnavailableError("no answer");
    for (size_t attempt = 0;; ++attempt) {
      const std::vector<std::shared_ptr<grpc::Channel>>& channels = made->all();
      const size_t choice = attempt % channels.size();
      const absl::Time now = absl::Now();
      if (now >= until) break;
      // No address may use up the time of those after it.
      const absl::Time share = now + (until - now) / static_cast<double>(channels.size() - choice);
      auto stream = std::make_unique<ClientStream>(channels[choice], &queue_);
      bool refused;
      absl::Status status = stream->Open(share, &refused);
      if (status.ok()) {
        stream_ = std::move(stream);
        loop_ = std::make_unique<StreamLoop>(grpc_internal::StreamSide::kClient, stream_.get(),
                                             &queue_, options_, kMaxFramePayload);
        return status;
      }
      if (refused || !MayPass(status)) return status;
      const absl::Status found = made->ExplainFailure(choice, until);
      if (!found.ok()) return found;
      // The reason of a refused connection says more than that time ran out in the end.
      if (!absl::IsDeadlineExceeded(status) || attempt == 0) last = std::move(status);
      // gRPC fails calls at once while it waits to connect again, and nobody polls its connection
      // meanwhile. Fresh channels connect for the call that waits for them.
      if (choice + 1 == channels.size()) {
        made = ClientChannels::Make(target_.address, target_.tls.get(), options_,
                                    target_.listener_uid);
        if (!made.ok()) return made.status();
      }
      absl::SleepFor(
          std::min(absl::Milliseconds(20), std::max(until - absl::Now(), absl::ZeroDuration())));
    }
    return absl::UnavailableError(absl::StrCat("no Warpline server answered at ", target_.address,
                                               " within ", absl::FormatDuration(deadline), ": ",
                                               last.message()));
  }

  const GrpcTarget target_;
  ChannelHandler* const handler_;
  const ChannelOptions options_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<ClientStream> stream_;
  std::unique_ptr<StreamLoop> loop_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> DialGrpc(const GrpcTarget& target, ChannelHandler* handler,
                                                  const ChannelOptions& options,
                                                  absl::Duration deadline) {
  grpc_internal::StartGrpc(/*poll_per_queue=*/false);
  auto channel = std::make_unique<GrpcClientChannel>(target, handler, options);
  const absl::Status status = channel->Dial(deadline);
  if (!status.ok()) return status;
  return channel;
}

}  // namespace warpline
