// gRPC as a transport: what transport/registry registers.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_

#include "transport/transport.h"

namespace warpline {

// "host:port", "[ipv6]:port" and "unix:/path".
inline constexpr Transport kGrpcTransport = {
    .scheme = "",
    .can = TransportCapabilities(TransportCapability::kTls) | TransportCapability::kMethods |
           TransportCapability::kListenerUid};

ClientEnd GrpcClientEnd();
ServerEnd GrpcServerEnd();

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_
