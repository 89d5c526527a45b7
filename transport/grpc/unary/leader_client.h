// Calls to whichever of several schedulers leads.
//
//   LeaderClient client({"a:14100", "b:14100"}, [](const std::string& address) {
//     return GrpcTarget{.address = address, .tls = ClientTls(address)};
//   });
//   const auto reply = CallUnary<LeaseReply>(&client, kAcquire, request, absl::Seconds(5));
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_LEADER_CLIENT_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_LEADER_CLIENT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline {

// The addresses in a text in which commas separate them; none of an empty text.
std::vector<std::string> ParseAddresses(absl::string_view text);

// Thread-safe. With one address that leads, or that is a server's, a call is what it is with a
// UnaryClient. Otherwise the call goes on to the address that an answer names as the leader's
// (proto/leader_hint.h), or where there was none to the next one, until its deadline. Where an
// answer was lost, the call may so be carried out twice. An UNAVAILABLE with another refusal
// (proto/refusal.h) is what the method has to say, and is returned.
class LeaderClient {
 public:
  // Makes the target of an address.
  using Targets = std::function<GrpcTarget(const std::string& address)>;

  // At least one address. Where there are several, each gets `attempt` to answer.
  LeaderClient(std::vector<std::string> addresses, Targets targets,
               absl::Duration attempt = absl::Seconds(1));

  // Calls the leader. The errors are those of UnaryClient::Call().
  absl::StatusOr<std::string> Call(const std::string& method, const std::string& request,
                                   absl::Duration deadline) const;

  // The one that answered last; the first before that.
  std::string address() const;

 private:
  GrpcTarget TargetFor(const std::string& address) const;

  const std::vector<std::string> addresses_;
  const Targets targets_;
  const absl::Duration attempt_;
  mutable Mutex mu_;
  mutable std::string current_ ABSL_GUARDED_BY(mu_);
  // Those of the latest addresses, so that TLS's files are read when they change only.
  mutable std::map<std::string, GrpcTarget> known_ ABSL_GUARDED_BY(mu_);
};

// INTERNAL for an answer that does not parse.
template <typename Reply, typename Request>
absl::StatusOr<Reply> CallUnary(const LeaderClient* client, const std::string& method,
                                const Request& request, absl::Duration deadline) {
  const auto bytes = client->Call(method, request.SerializeAsString(), deadline);
  if (!bytes.ok()) return bytes.status();
  Reply reply;
  if (!reply.ParseFromString(*bytes)) return absl::InternalError("an answer that does not parse");
  return reply;
}

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_LEADER_CLIENT_H_
