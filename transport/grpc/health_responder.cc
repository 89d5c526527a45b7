#include "transport/grpc/health_responder.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

namespace warpline::grpc_internal {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

// HealthCheckResponse{status}: field 1, a varint.
grpc::ByteBuffer EncodeStatus(bool serving) {
  constexpr uint8_t kServing = 1;
  constexpr uint8_t kNotServing = 2;
  const uint8_t bytes[] = {0x08, serving ? kServing : kNotServing};
  const grpc::Slice slice(bytes, sizeof(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

// One call from its request to its end. It answers at once, so that no client can keep it waiting.
class HealthResponder::Call : public AcceptEvent {
 public:
  Call(HealthResponder* owner, grpc::ServerCompletionQueue* queue) : owner_(owner), queue_(queue) {
    owner_->service_.RequestCall(&context_, &stream_, queue_, queue_, this);
  }

  void OnEvent(bool ok) override {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    answered_ = true;
    new Call(owner_, queue_);
    if (context_.method() == kCheck) {
      const bool serving = owner_->serving_.load(std::memory_order_relaxed);
      stream_.WriteAndFinish(EncodeStatus(serving), grpc::WriteOptions(), grpc::Status::OK, this);
    } else {
      stream_.Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"), this);
    }
  }

 private:
  HealthResponder* const owner_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  bool answered_ = false;
};

void HealthResponder::Listen(grpc::ServerCompletionQueue* queue) {
  // Owned by the queue until its event comes back.
  new Call(this, queue);
}

}  // namespace warpline::grpc_internal
