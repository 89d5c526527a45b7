// The first message in each direction: the client's description of itself, and the checks of the
// server's answer.
#ifndef WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_HANDSHAKE_H_
#define WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_HANDSHAKE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client_stub/session/handshake/arena_reservation.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// A server's welcome after every check.
struct Welcomed {
  uint64_t session = 0;
  std::string secret;
  SessionTerms terms;
  uint64_t window_bytes = 0;
  uint64_t window_commands = 0;
  std::string server;
  bool resumable = false;
  uint32_t version = 0;  // The protocol's version.
  // Where the server also listens, for clients on the host with this boot id. May be empty.
  std::string boot_id;
  std::string unix_socket;
  std::string shm_name;
  // The user that listens there, and the inode of the user namespace in which that number holds.
  uint32_t server_uid = 0;
  uint64_t user_namespace = 0;
  std::string host_memory_socket;
};

// Returns the payload of kHello.
std::string MakeHello(const SessionOptions& options, const ArenaCandidate& arena);

// Reads the payload of kWelcome. INVALID_ARGUMENT, naming the field, for a welcome that a correct
// server does not send; FAILED_PRECONDITION for a version or a feature that the client does not
// know.
absl::StatusOr<Welcomed> ParseWelcome(std::string_view payload, const ArenaCandidate& arena);

// Reads the payload of kRedirect and returns the status with which the opening then ends;
// INVALID_ARGUMENT for a malformed one.
absl::Status ParseRedirect(std::string_view payload);

// Reads the payload of kRedirect that answers an attempt to resume, and returns where the session
// goes on; INVALID_ARGUMENT when it is malformed.
absl::StatusOr<std::string> EndpointOfRedirect(std::string_view payload);

// If `status` is that of a redirect, changes `options` to the place that it names and returns true.
bool FollowRedirect(const absl::Status& status, SessionOptions* options);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_HANDSHAKE_H_
