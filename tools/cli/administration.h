// The calls that only operators may make: at a server's admin socket, or with the credential of a
// scheduler's operator.
#ifndef WARPLINE_TOOLS_CLI_ADMINISTRATION_H_
#define WARPLINE_TOOLS_CLI_ADMINISTRATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline::cli {

// Returns a client of the admin socket of the server at `endpoint`, which tells where the socket
// is. PERMISSION_DENIED, with a text that says which user may do it on which host, when this
// process cannot use the socket; UNIMPLEMENTED when a scheduler answers; UNAVAILABLE without an
// answer.
absl::StatusOr<UnaryClient> AdminOf(const std::string& endpoint);

// Returns the report of the server or scheduler at `endpoint`. Its operator gets all of it; others
// get the part of the tenant whose lease (WARPLINE_TOKEN_FILE) or credential the environment names.
// The errors are those of AdminOf().
absl::StatusOr<warpline_internal::StatReply> AskForStat(const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_ADMINISTRATION_H_
