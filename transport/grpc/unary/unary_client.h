// Calls with messages in place of bytes.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CLIENT_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CLIENT_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/grpc/connect/grpc_target.h"
#include "transport/grpc/unary/unary_call.h"

namespace warpline {

// Where calls go. Thread-safe. A connection for each call.
class UnaryClient {
 public:
  explicit UnaryClient(GrpcTarget target) : target_(std::move(target)) {}

  // Calls a method there. The errors are those of CallUnary().
  absl::StatusOr<std::string> Call(const std::string& method, const std::string& request,
                                   absl::Duration deadline) const {
    return CallUnary(target_, method, request, deadline);
  }

  const std::string& address() const { return target_.address; }

 private:
  const GrpcTarget target_;
};

// INTERNAL for an answer that does not parse.
template <typename Reply, typename Request>
absl::StatusOr<Reply> CallUnary(const UnaryClient* client, const std::string& method,
                                const Request& request, absl::Duration deadline) {
  const auto bytes = client->Call(method, request.SerializeAsString(), deadline);
  if (!bytes.ok()) return bytes.status();
  Reply reply;
  if (!reply.ParseFromString(*bytes)) return absl::InternalError("an answer that does not parse");
  return reply;
}

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CLIENT_H_
