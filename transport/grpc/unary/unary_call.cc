#include "transport/grpc/unary/unary_call.h"

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "transport/grpc/base/grpc_process.h"
#include "transport/grpc/connect/client_channel.h"
#include "transport/grpc/unary/call_on_channel.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using grpc_internal::ClientChannels;

absl::StatusOr<std::string> Call(const GrpcTarget& target, const std::string& method,
                                 const std::string& request, absl::Time deadline) {
  absl::StatusOr<ClientChannels> channels =
      ClientChannels::Make(target.address, target.tls.get(), ChannelOptions());
  if (!channels.ok()) return channels.status();
  absl::Status last;
  for (size_t i = 0; i < channels->all().size(); ++i) {
    std::string answer;
    last = grpc_internal::CallOnChannel(channels->all()[i], method, request, deadline, &answer);
    if (last.ok()) return answer;
    if (!absl::IsUnavailable(last)) break;
    const absl::Status found = channels->ExplainFailure(i, deadline);
    if (!found.ok()) return found;
  }
  return last;
}

}  // namespace

absl::StatusOr<std::string> CallUnary(const GrpcTarget& target, const std::string& method,
                                      const std::string& request, absl::Duration deadline) {
  grpc_internal::StartGrpc(/*poll_per_queue=*/false);
  absl::StatusOr<std::string> answer;
  // On a thread without signals, as gRPC's threads then are.
  auto thread = TryStartLoopThread(
      "wl-call", [&] { answer = Call(target, method, request, absl::Now() + deadline); });
  if (!thread.ok()) return thread.status();
  thread->join();
  return answer;
}

}  // namespace warpline
