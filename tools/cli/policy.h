// `warpline policy`: the policies of a server's dispatch.
#ifndef WARPLINE_TOOLS_CLI_POLICY_H_
#define WARPLINE_TOOLS_CLI_POLICY_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// Carries the command out, and returns what to print. Errors are for people.
absl::StatusOr<std::string> Policy(const CommandLine& line, const std::string& endpoint);

// Returns the name of a policy from a file if none is given: "a/mine.bpf.o" becomes "mine".
std::string PolicyNameOf(const std::string& file);
// Returns a description of an object that a server would accept. The errors are those of
// Program::Load().
absl::StatusOr<std::string> CheckPolicy(const std::string& object);
std::string PoliciesReport(warpline_internal::PolicyReply reply);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_POLICY_H_
