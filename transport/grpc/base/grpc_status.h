// grpc::Status to and from absl::Status. The codes are the same numbers; a refusal travels as
// gRPC's error details, which peers that do not know it ignore. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_BASE_GRPC_STATUS_H_
#define WARPLINE_TRANSPORT_GRPC_BASE_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "proto/refusal.h"

namespace warpline::grpc_internal {

// Longer messages would not fit into HTTP/2 trailers everywhere.
inline constexpr size_t kMaxStatusMessage = 1024;

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string refusal;
  if (const auto payload = status.GetPayload(kRefusalPayload);
      payload.has_value() && payload->size() <= kMaxRefusalBytes) {
    refusal = std::string(*payload);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message().substr(0, kMaxStatusMessage)), refusal);
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = status.error_message();
  absl::Status made(static_cast<absl::StatusCode>(status.error_code()),
                    absl::string_view(message).substr(0, kMaxStatusMessage));
  const std::string refusal = status.error_details();
  if (!refusal.empty() && refusal.size() <= kMaxRefusalBytes) {
    made.SetPayload(kRefusalPayload, absl::Cord(refusal));
  }
  return made;
}

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_BASE_GRPC_STATUS_H_
