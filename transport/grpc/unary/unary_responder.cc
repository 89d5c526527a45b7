#include "transport/grpc/unary/unary_responder.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/grpc/base/grpc_status.h"
#include "transport/grpc/listen/server_credentials.h"

namespace warpline::grpc_internal {
namespace {

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
  Call(UnaryResponder* owner, grpc::ServerCompletionQueue* queue) : owner_(owner), queue_(queue) {
    owner_->service_.RequestCall(&context_, &stream_, queue_, queue_, this);
  }

  void OnEvent(bool ok) override {
    if (!ok || stage_ == Stage::kAnswering) {
      delete this;
    } else if (stage_ == Stage::kAwaited) {
      new Call(owner_, queue_);
      Begin();
    } else {
      const absl::StatusOr<std::string> request = ToString(request_);
      Answer(request.ok() ? method_->second(PeerName(context_), *request) : request);
    }
  }

 private:
  enum class Stage { kAwaited, kReading, kAnswering };

  void Begin() {
    if (context_.method() == kHealthCheck) {
      const bool serving = owner_->serving_.load(std::memory_order_relaxed);
      return Answer(std::string(serving ? kServing : kNotServing));
    }
    method_ = owner_->methods_.find(context_.method());
    if (method_ == owner_->methods_.end()) {
      return Answer(absl::UnimplementedError("no such method"));
    }
    if (auto status = CheckPeer(context_, owner_->tls_.get()); !status.ok()) return Answer(status);
    stage_ = Stage::kReading;
    stream_.Read(&request_, this);
  }

  void Answer(const absl::StatusOr<std::string>& answer) {
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
  grpc::ByteBuffer request_;
  UnaryMethods::const_iterator method_;
  Stage stage_ = Stage::kAwaited;
};

void UnaryResponder::Listen(grpc::ServerCompletionQueue* queue) {
  // Owned by the queue until its event comes back.
  new Call(this, queue);
}

}  // namespace warpline::grpc_internal
