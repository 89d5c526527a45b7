// grpc::Status to and from absl::Status. The codes are the same numbers. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_STATUS_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpline::grpc_internal {

// Longer messages would not fit into HTTP/2 trailers everywhere.
inline constexpr size_t kMaxStatusMessage = 1024;

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message().substr(0, kMaxStatusMessage)));
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = status.error_message();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::string_view(message).substr(0, kMaxStatusMessage));
}

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_STATUS_H_
