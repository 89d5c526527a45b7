// Which server to reach over gRPC, and how.
#ifndef WARPLINE_TRANSPORT_GRPC_CONNECT_GRPC_TARGET_H_
#define WARPLINE_TRANSPORT_GRPC_CONNECT_GRPC_TARGET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/grpc/tls/grpc_tls.h"

namespace warpline {

struct GrpcTarget {
  // "host:port", "[ipv6]:port" or "unix:/path".
  std::string address;
  // Plain text without. What it holds when the connection is made counts.
  std::shared_ptr<TlsSource> tls = nullptr;
  // For a unix socket in plain text: the user that who listens there must be.
  std::optional<uint32_t> listener_uid = std::nullopt;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_CONNECT_GRPC_TARGET_H_
