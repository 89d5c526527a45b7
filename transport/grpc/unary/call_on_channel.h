// One unary call of bytes on a gRPC channel. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_CALL_ON_CHANNEL_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_CALL_ON_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpline::grpc_internal {

// Blocks until the answer is appended to `answer` or the call has failed. On a thread that blocks
// signals, which threads that gRPC starts inherit.
absl::Status CallOnChannel(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const std::string& request, absl::Time deadline, std::string* answer);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_CALL_ON_CHANNEL_H_
