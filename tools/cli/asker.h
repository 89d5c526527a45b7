// Asks a scheduler what its operator may ask.
#ifndef WARPLINE_TOOLS_CLI_ASKER_H_
#define WARPLINE_TOOLS_CLI_ASKER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/scheduler.pb.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/lease.h"
#include "tools/cli/pages.h"
#include "transport/grpc/unary/leader_client.h"

namespace warpline::cli {

// Thread-safe. Errors are for people.
class Asker {
 public:
  // Asks whichever leads of the schedulers that `endpoint` names, separated by commas.
  explicit Asker(const std::string& endpoint) : client_(ClientOf(endpoint)) {}

  // Calls the method of the service Scheduler. UNIMPLEMENTED for a peer that is no scheduler,
  // UNAVAILABLE without an answer.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(const char* method, const Request& request) {
    auto reply = CallUnary<Reply>(&client_, absl::StrCat("/warpline_internal.Scheduler/", method),
                                  request, CallTimeout());
    if (reply.ok()) return reply;
    const auto code = reply.status().code();
    if (code == absl::StatusCode::kUnimplemented) {
      return absl::UnimplementedError(
          absl::StrCat("what answers at ", client_.address(), " is no scheduler"));
    }
    if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
      return absl::UnavailableError(
          absl::StrCat("no answer from ", client_.address(), ": ", reply.status().message()));
    }
    return reply;
  }

  // Returns a list that is told in parts as one.
  template <typename List>
  absl::StatusOr<List> AskForList(const char* method, const warpline_internal::Operator& request) {
    return AskForAll(
        request, [&](const warpline_internal::Operator& part) { return Ask<List>(method, part); });
  }

 private:
  const LeaderClient client_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_ASKER_H_
