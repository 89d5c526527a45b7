#include "transport/grpc/connect/client_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "transport/grpc/base/grpc_args.h"
#include "transport/grpc/connect/tls_probe.h"
#include "transport/unix_connect.h"

namespace warpline::grpc_internal {
namespace {

// Of one look at a server.
constexpr absl::Duration kProbe = absl::Seconds(1);

// One attempt to connect ends after so many milliseconds, and with it the calls that wait for it:
// as long as a program waits by default, since the server's host may be busy.
constexpr int kMostOfAttempt = 5000;

grpc::ChannelArguments MakeArguments(const ResolvedTarget& resolved,
                                     const ChannelOptions& options) {
  grpc::ChannelArguments args;
  SetCommonArgs(options, kMaxFramePayload, /*bulk=*/true,
                [&args](const char* key, int value) { args.SetInt(key, value); });
  if (resolved.local) args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMostOfAttempt);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, resolved.authority);
  return args;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& uri, const ResolvedTarget& resolved,
                                           const GrpcTls* tls, const std::string& name,
                                           const ChannelOptions& options) {
  grpc::ChannelArguments args = MakeArguments(resolved, options);
  if (tls == nullptr) {
    return grpc::CreateCustomChannel(uri, grpc::InsecureChannelCredentials(), args);
  }
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = tls->root_certs;
  ssl.pem_cert_chain = tls->cert_chain;
  ssl.pem_private_key = tls->private_key;
  // The address no longer carries the name that the certificate is for.
  args.SetSslTargetNameOverride(name);
  return grpc::CreateCustomChannel(uri, grpc::SslCredentials(ssl), args);
}

}  // namespace

absl::StatusOr<ClientChannels> ClientChannels::Make(const std::string& address, TlsSource* tls,
                                                    const ChannelOptions& options,
                                                    std::optional<uint32_t> listener_uid) {
  ClientChannels made;
  if (tls != nullptr) {
    auto current = tls->Current();
    if (!current.ok()) return current.status();
    made.tls_ = *std::move(current);
  }
  auto resolved = ResolveTarget(address);
  if (!resolved.ok()) return resolved.status();
  made.address_ = address;
  made.resolved_ = *std::move(resolved);
  if (made.tls_ != nullptr) {
    made.name_ = made.tls_->server_name.empty() ? made.resolved_.host : made.tls_->server_name;
  }
  absl::string_view path = address;
  if (made.tls_ == nullptr && absl::ConsumePrefix(&path, "unix:")) {
    absl::ConsumePrefix(&path, "//");
    // Whoever is looked at is who is spoken to: gRPC takes the connection as it is. And the server
    // can tell it from others of the same user.
    auto connected = ConnectUnix(std::string(path), listener_uid);
    if (connected.ok()) {
      made.channels_.push_back(grpc::CreateCustomInsecureChannelFromFd(
          made.resolved_.authority, connected->Release(), MakeArguments(made.resolved_, options)));
      made.failures_.resize(1);
      return made;
    }
    if (listener_uid.has_value()) return connected.status();
    // gRPC says what is wrong, or finds a server that comes up later.
  }
  for (const std::string& uri : made.resolved_.uris) {
    made.channels_.push_back(
        MakeChannel(uri, made.resolved_, made.tls_.get(), made.name_, options));
  }
  made.failures_.resize(made.channels_.size());
  return made;
}

absl::Status ClientChannels::ExplainFailure(size_t index, absl::Time deadline) {
  const unsigned failures = ++failures_[index];
  if ((failures & (failures - 1)) != 0) return absl::OkStatus();
  const absl::Status found = ExplainTlsFailure(resolved_.addresses[index], tls_.get(), name_,
                                               std::min(deadline, absl::Now() + kProbe));
  if (found.ok()) return found;
  return absl::Status(found.code(),
                      absl::StrCat("no TLS connection to ", address_, ": ", found.message()));
}

}  // namespace warpline::grpc_internal
