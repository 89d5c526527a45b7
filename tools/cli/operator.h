// `warpline tenant`, `warpline lease`, `warpline slice` and `warpline servers`: the operator's
// commands for a scheduler.
#ifndef WARPLINE_TOOLS_CLI_OPERATOR_H_
#define WARPLINE_TOOLS_CLI_OPERATOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/scheduler.pb.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// Carries the command out, and returns what to print. Errors are for people.
absl::StatusOr<std::string> Operate(const CommandLine& line, const std::string& endpoint);

// Returns the record that the scheduler at `endpoint` has of its server `name`. NOT_FOUND for a
// server that it does not know.
absl::StatusOr<warpline_internal::Server> FindServer(const std::string& endpoint,
                                                     const std::string& name);

std::string ServersReport(warpline_internal::ServerList list);
std::string LeasesReport(warpline_internal::LeaseList list);
std::string SlicesReport(warpline_internal::SliceList list);
std::string TenantsReport(warpline_internal::TenantList list);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_OPERATOR_H_
