// How the command line reaches those who may be told of, and do, more than a client: a server's
// operator at its admin socket, and a scheduler's by their credential.
#ifndef WARPLINE_TOOLS_CLI_ADMINISTRATION_H_
#define WARPLINE_TOOLS_CLI_ADMINISTRATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline::cli {

// The admin socket of the server that answers at `endpoint`, which says itself where it is.
// PERMISSION_DENIED, saying who may do it where, when this process cannot use it; UNIMPLEMENTED
// when a scheduler answers; UNAVAILABLE when nobody does.
absl::StatusOr<UnaryClient> AdminOf(const std::string& endpoint);

// What the server or scheduler at `endpoint` tells: everything to its operator, otherwise what
// concerns the tenant whose lease (WARPLINE_TOKEN_FILE) or credential the environment names. Errors
// as above.
absl::StatusOr<warpline_internal::StatReply> AskForStat(const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_ADMINISTRATION_H_
