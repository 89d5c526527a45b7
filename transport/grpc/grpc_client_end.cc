#include <memory>

#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_transport.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline {
namespace {

absl::StatusOr<std::unique_ptr<Channel>> DialTargetByGrpc(const DialTarget& target,
                                                          ChannelHandler* handler,
                                                          const ChannelOptions& options,
                                                          absl::Duration deadline) {
  GrpcTarget to = {.address = target.address, .listener_uid = target.listener_uid};
  if (WantsTls(target.tls, target.address)) {
    to.tls = std::make_shared<TlsSource>(TlsSource::Side::kClient, target.tls);
  }
  return DialGrpc(to, handler, options, deadline);
}

}  // namespace

ClientEnd GrpcClientEnd() { return {.transport = kGrpcTransport, .dial = &DialTargetByGrpc}; }

}  // namespace warpline
