// How commands that follow long work at a server ask and speak, so that tests can stand in.
#ifndef WARPLINE_TOOLS_CLI_FOLLOWED_CALLS_H_
#define WARPLINE_TOOLS_CLI_FOLLOWED_CALLS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/child.h"
#include "tools/cli/text.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline::cli {

// All are called in one thread.
template <typename Request, typename Reply>
struct FollowedCalls {
  std::function<absl::StatusOr<Reply>(const Request& request)> ask;
  // Takes the time `pause`, or less when a signal comes: returns its number, or 0.
  std::function<int(absl::Duration pause)> pause;
  std::function<absl::Time()> clock;
  // Prints a line of the result, and one of what went wrong.
  std::function<void(const std::string& line)> say;
  std::function<void(const std::string& line)> complain;
};

// Returns those that ask by `ask` and speak to the terminal. Signals that end a program have to be
// blocked (BlockForwardedSignals()).
template <typename Request, typename Reply>
FollowedCalls<Request, Reply> CallsBy(
    std::function<absl::StatusOr<Reply>(const Request& request)> ask) {
  return {.ask = std::move(ask),
          .pause = &WaitForEndSignal,
          .clock = &SteadyNow,
          .say = &SayLine,
          .complain = [](const std::string& said) { Complain("warpline", said, 1); }};
}

// CallsBy() for a method of `server`, which is borrowed.
template <typename Request, typename Reply>
FollowedCalls<Request, Reply> CallsTo(const UnaryClient* server, const char* method) {
  return CallsBy<Request, Reply>([server, method](const Request& request) {
    return CallUnary<Reply>(server, method, request, CallTimeout());
  });
}

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_FOLLOWED_CALLS_H_
