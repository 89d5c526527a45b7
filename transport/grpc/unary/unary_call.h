// The client's end of UnaryMethods: one call on a connection of its own.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CALL_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CALL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/grpc/connect/grpc_target.h"

namespace warpline {

// Calls `method` ("/package.Service/Method") with a serialized request and returns the serialized
// answer. Blocks. INVALID_ARGUMENT for a target of no known form; UNAVAILABLE when nobody answers
// within `deadline`; UNAUTHENTICATED, with what to do, when TLS is the reason; otherwise the
// method's own status. Thread-safe.
absl::StatusOr<std::string> CallUnary(const GrpcTarget& target, const std::string& method,
                                      const std::string& request, absl::Duration deadline);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CALL_H_
