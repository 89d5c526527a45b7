// One connection that is kept for many calls, to a server of any gRPC service. For who calls often;
// who calls once uses CallUnary().
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CONNECTION_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "transport/grpc/connect/grpc_target.h"

namespace warpline {

// Thread-safe. The connection is made with the first call, and made again when it broke, or a call
// had no answer. Answers
// are bounded as all messages of ours are, by a little more than a MiB.
class UnaryConnection {
 public:
  explicit UnaryConnection(GrpcTarget target) : target_(std::move(target)) {}
  ~UnaryConnection();
  UnaryConnection(const UnaryConnection&) = delete;
  UnaryConnection& operator=(const UnaryConnection&) = delete;

  // Calls `method` ("/package.Service/Method") with a serialized request and returns the serialized
  // answer. Blocks, up to `deadline`. INVALID_ARGUMENT for a target of no known form,
  // RESOURCE_EXHAUSTED for an answer that is too long, otherwise the status of the method or of the
  // transport; after UNAVAILABLE and DEADLINE_EXCEEDED the call may have been carried out all the
  // same.
  absl::StatusOr<std::string> Call(const std::string& method, const std::string& request,
                                   absl::Duration deadline);

  const std::string& address() const { return target_.address; }

 private:
  struct Channels;
  absl::StatusOr<std::shared_ptr<Channels>> Connect();

  const GrpcTarget target_;
  Mutex mu_;
  // Shared with the calls that are under way when it is replaced.
  std::shared_ptr<Channels> channels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_CONNECTION_H_
