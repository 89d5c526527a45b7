#include "transport/grpc/unary/unary_connection.h"

#include <utility>

#include "absl/time/clock.h"
#include "transport/grpc/base/grpc_process.h"
#include "transport/grpc/connect/client_channel.h"
#include "transport/grpc/unary/call_on_channel.h"
#include "transport/loop_thread.h"

namespace warpline {

using grpc_internal::ClientChannels;

struct UnaryConnection::Channels {
  ClientChannels made;
};

UnaryConnection::~UnaryConnection() = default;

absl::StatusOr<std::shared_ptr<UnaryConnection::Channels>> UnaryConnection::Connect() {
  MutexLock lock(&mu_);
  if (channels_ != nullptr) return channels_;
  // Every call has a deadline, and servers that are not ours, such as etcd, hang up on who pings
  // them more often than they like.
  ChannelOptions options;
  options.keepalive = absl::Hours(24);
  auto made = ClientChannels::Make(target_.address, target_.tls.get(), options);
  if (!made.ok()) return made.status();
  channels_ = std::make_shared<Channels>(Channels{*std::move(made)});
  return channels_;
}

absl::StatusOr<std::string> UnaryConnection::Call(const std::string& method,
                                                  const std::string& request,
                                                  absl::Duration deadline) {
  grpc_internal::StartGrpc(/*poll_per_queue=*/false);
  const ScopedSignalBlock block;
  const auto channels = Connect();
  if (!channels.ok()) return channels.status();
  const absl::Time until = absl::Now() + deadline;
  absl::Status last;
  for (const auto& channel : (*channels)->made.all()) {
    std::string answer;
    last = grpc_internal::CallOnChannel(channel, method, request, until, &answer);
    if (last.ok()) return answer;
    if (!absl::IsUnavailable(last)) break;
  }
  // The next call looks the name up again, reads TLS's files anew, and does not rely on a
  // connection whose other end may be gone.
  if (absl::IsUnavailable(last) || absl::IsDeadlineExceeded(last)) {
    MutexLock lock(&mu_);
    if (channels_ == *channels) channels_ = nullptr;
  }
  return last;
}

}  // namespace warpline
