#include "transport/grpc/unary/call_on_channel.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <vector>

#include "transport/grpc/base/grpc_status.h"

namespace warpline::grpc_internal {

absl::Status CallOnChannel(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const std::string& request, absl::Time deadline, std::string* answer) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, &queue);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (!status.ok()) return FromGrpcStatus(status);
  std::vector<grpc::Slice> parts;
  if (!reply.Dump(&parts).ok()) return absl::InternalError("unreadable answer");
  for (const grpc::Slice& part : parts) {
    answer->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return absl::OkStatus();
}

}  // namespace warpline::grpc_internal
