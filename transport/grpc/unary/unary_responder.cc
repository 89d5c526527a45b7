#include "transport/grpc/unary/unary_responder.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "transport/grpc/base/grpc_status.h"
#include "transport/grpc/listen/server_credentials.h"

namespace warpline::grpc_internal {
namespace {

constexpr char kTooMany[] = "too many calls are waiting; try again";
constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

// HealthCheckResponse{status}: field 1, a varint.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<std::string> ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return absl::InvalidArgumentError("unreadable request");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

// One call from its request to its end.
class UnaryResponder::Call : public AcceptEvent {
 public:
  Call(UnaryResponder* owner, grpc::ServerCompletionQueue* queue) RUNS_ON(accept_loop)
      : owner_(owner), queue_(queue) {
    owner_->service_.RequestCall(&context_, &stream_, queue_, queue_, this);
  }

  ~Call() override RUNS_ON(accept_loop) { LeaveTurns(); }

  void OnEvent(bool ok) RUNS_ON(accept_loop) override {
    if (!ok || stage_ == Stage::kAnswering) {
      delete this;
    } else if (stage_ == Stage::kAwaited) {
      new Call(owner_, queue_);
      Begin();
    } else if (stage_ == Stage::kReading) {
      LeaveTurns();
      Handle();
    } else {
      Answer(TakeAnswer());
    }
  }

  void Read() RUNS_ON(accept_loop) { stream_.Read(&request_, this); }
  // It does not get its turn.
  void SendAway() RUNS_ON(accept_loop) {
    LeaveTurns();
    Answer(absl::UnavailableError(kTooMany));
  }
  // The read fails then.
  void Cancel() RUNS_ON(accept_loop) { context_.TryCancel(); }

 private:
  enum class Stage { kAwaited, kReading, kInQueue, kAnswering };

  void Begin() RUNS_ON(accept_loop) {
    if (!owner_->called_(context_.peer())) {
      return Answer(absl::InternalError("connections are not metered"));
    }
    method_ = owner_->methods_.find(context_.method());
    if (method_ == owner_->methods_.end() && context_.method() == kHealthCheck) {
      const bool serving = owner_->serving_.load(std::memory_order_relaxed);
      return Answer(std::string(serving ? kServing : kNotServing));
    }
    if (method_ == owner_->methods_.end()) {
      return Answer(absl::UnimplementedError("no such method"));
    }
    if (auto status = CheckPeer(context_, owner_->tls_.get()); !status.ok()) return Answer(status);
    stage_ = Stage::kReading;
    reader_ = ++owner_->last_reader_;
    owner_->readers_[reader_] = this;
    owner_->turns_.Add(reader_, PeerUnit(PeerName(context_)));
  }

  void LeaveTurns() RUNS_ON(accept_loop) {
    if (reader_ == 0) return;
    owner_->turns_.Remove(reader_);
    owner_->readers_.erase(reader_);
    reader_ = 0;
  }

  void Handle() RUNS_ON(accept_loop) {
    absl::StatusOr<std::string> request = ToString(request_);
    if (!request.ok()) return Answer(request);
    const std::string peer = PeerName(context_);
    const auto queue = owner_->queue_of_.find(method_->first);
    if (queue == owner_->queue_of_.end()) return Answer(method_->second(peer, *request));
    absl::StatusOr<UnaryCaller> caller = UnaryCaller{std::string(PeerWithoutPort(peer))};
    if (queue->second.admit) caller = queue->second.admit(peer, *request);
    if (!caller.ok()) return Answer(caller.status());
    request_.Clear();
    stage_ = Stage::kInQueue;
    const size_t bytes = request->size();
    const bool posted = owner_->queues_->Post(
        queue->second.number, *caller, bytes,
        [this, method = method_, peer, request = *std::move(request)](bool run) {
          GiveAnswer(run ? method->second(peer, request)
                         : absl::StatusOr<std::string>(absl::UnavailableError("shutting down")));
        });
    if (!posted) Answer(absl::UnavailableError(kTooMany));
  }

  // On the thread of the queues. Afterwards the call is the accepting thread's again.
  void GiveAnswer(absl::StatusOr<std::string> answer) {
    {
      MutexLock lock(&mu_);
      answer_ = std::move(answer);
    }
    alarm_.Set(queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), static_cast<AcceptEvent*>(this));
  }

  absl::StatusOr<std::string> TakeAnswer() {
    MutexLock lock(&mu_);
    return std::move(answer_);
  }

  void Answer(const absl::StatusOr<std::string>& answer) RUNS_ON(accept_loop) {
    stage_ = Stage::kAnswering;
    if (answer.ok()) {
      stream_.WriteAndFinish(ToBuffer(*answer), grpc::WriteOptions(), grpc::Status::OK, this);
    } else {
      stream_.Finish(ToGrpcStatus(answer.status()), this);
    }
  }

  UnaryResponder* const owner_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer request_ ABSL_GUARDED_BY(accept_loop);
  UnaryMethods::const_iterator method_ ABSL_GUARDED_BY(accept_loop);
  Stage stage_ ABSL_GUARDED_BY(accept_loop) = Stage::kAwaited;
  ReadTurns::Id reader_ ABSL_GUARDED_BY(accept_loop) = 0;  // 0 when it neither reads nor waits to.

  // From a queue.
  grpc::Alarm alarm_;
  Mutex mu_;
  absl::StatusOr<std::string> answer_ ABSL_GUARDED_BY(mu_);
};

void UnaryResponder::Poll() {
  const absl::Time now = SteadyNow();
  for (const ReadTurns::Id id : turns_.TakeOverdue(now)) readers_.at(id)->Cancel();
  while (const auto next = turns_.TakeNext(now)) readers_.at(*next)->Read();
  while (const auto excess = turns_.TakeExcess()) readers_.at(*excess)->SendAway();
}

void UnaryResponder::DropWaiting() {
  for (const ReadTurns::Id id : turns_.TakeWaiting()) delete readers_.at(id);
}

void UnaryResponder::Stop() {
  if (queues_ != nullptr) queues_->Stop();
}

void UnaryResponder::Listen(grpc::ServerCompletionQueue* queue) {
  size_t queues = 0;
  for (const auto& [method, queue] : queue_of_) queues = std::max(queues, queue.number + 1);
  queues_ = std::make_unique<UnaryQueues>(queues, WaitingLimits());
  // Owned by the queue until its event comes back.
  new Call(this, queue);
}

}  // namespace warpline::grpc_internal
