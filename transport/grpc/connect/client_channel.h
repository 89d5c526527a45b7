// gRPC channels to a target, for sessions and for single calls. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_CONNECT_CLIENT_CHANNEL_H_
#define WARPLINE_TRANSPORT_GRPC_CONNECT_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/grpc/connect/target.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// The channels of one attempt to reach a target. Not thread-safe.
class ClientChannels {
 public:
  // Looks the address up and reads TLS's files. Errors as ResolveTarget() and TlsSource::Current().
  // `tls` may be null. With `listener_uid`, which counts for unix sockets in plain text, the
  // channel is connected already and errors are those of ConnectUnix(), too.
  static absl::StatusOr<ClientChannels> Make(const std::string& address, TlsSource* tls,
                                             const ChannelOptions& options,
                                             std::optional<uint32_t> listener_uid = std::nullopt);

  // One for each address that the target has, at least one.
  const std::vector<std::shared_ptr<grpc::Channel>>& all() const { return channels_; }

  // The connection of channel `index` failed. UNAUTHENTICATED, with what to do, when TLS is the
  // reason, which further attempts would not change; OK otherwise. Looks only at the first, second,
  // fourth... failure of each channel. On a thread that blocks SIGPIPE.
  absl::Status ExplainFailure(size_t index, absl::Time deadline);

 private:
  ClientChannels() = default;

  std::string address_;
  ResolvedTarget resolved_;
  std::shared_ptr<const GrpcTls> tls_;
  std::string name_;  // That the server's certificate must carry.
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<unsigned> failures_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_CONNECT_CLIENT_CHANNEL_H_
