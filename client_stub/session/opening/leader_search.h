// Opens a session where an endpoint names a scheduler, or several of which one leads.
#ifndef WARPLINE_CLIENT_STUB_SESSION_OPENING_LEADER_SEARCH_H_
#define WARPLINE_CLIENT_STUB_SESSION_OPENING_LEADER_SEARCH_H_

#include <functional>

#include "absl/status/status.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// Calls `open` with `options` for the address in options.endpoint, or for each of those in it that
// commas separate, until it succeeds or says what no other address would change. A scheduler's
// answer names the server and the token with which to go on there, or, without a token, the
// scheduler that leads. The answer of a server whose lease has moved names the server that has it
// now, and a token. A few such answers in a row are followed. With one address that is all; with
// several, addresses that do not answer are tried again until options.deadline. Returns the last
// status of `open`.
absl::Status OpenWhereLed(const SessionOptions& options,
                          const std::function<absl::Status(const SessionOptions&)>& open);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_OPENING_LEADER_SEARCH_H_
