// Connects by TCP to one of several places where a server may be reached.
#ifndef WARPLINE_TRANSPORT_TCP_CONNECT_H_
#define WARPLINE_TRANSPORT_TCP_CONNECT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace warpline {

// Returns the events that have come for the socket, of POLLIN and POLLOUT, within `timeout_ms`; -1
// waits without end. For a socket that has ended it returns all of `events`: who reads or writes
// next finds out.
short PollSocket(int fd, short events, int timeout_ms);

// Returns how many milliseconds there are until `until`, at most an hour's, as poll(2) takes them.
int PollMilliseconds(absl::Time until);

// Has the socket notice a peer that is silent for so many seconds, or takes nothing for as long.
// Small writes leave at once.
void ExpectSignsOfLife(int fd, int seconds);

// Connects to the first of `places` that answers: "10.0.0.1:14701", "[fd00::1]:14701" or
// "gpuhost:14701", separated by commas, at most eight. Names are looked up, and all addresses of a
// name are tried. Each place gets an equal share of the time that is left. The socket does not
// block. INVALID_ARGUMENT for what is no list of places, UNAVAILABLE when none has answered until
// then, or soon after given_up() is true. Blocks.
absl::StatusOr<UniqueFd> ConnectTcp(absl::string_view places, absl::Time until,
                                    const std::function<bool()>& given_up = nullptr);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TCP_CONNECT_H_
