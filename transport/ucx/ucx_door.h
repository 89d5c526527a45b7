// The socket at which a UCX worker listens, and how it is closed to strangers. UCX itself has no
// way to stop listening, and ends its process when a connection says what cannot be. Private to
// transport/ucx.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_DOOR_H_
#define WARPLINE_TRANSPORT_UCX_UCX_DOOR_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace warpline::ucx_internal {

// The sockets of this process that listen at an IP address, by their descriptors.
std::set<int> ListenersAt(const std::string& ip);

// The epoll instances of this process that watch a descriptor.
std::vector<int> WatchersOf(int fd);

// From now on nobody can connect there: the descriptor, which UCX keeps, is that of something at
// which nobody listens, and UCX hears of nothing on it. Connections that it has taken stay.
// `watchers` watch it instead: UCX tells them to stop one day, and keeps a thread when it cannot.
absl::Status CloseToStrangers(int listener, const std::vector<int>& watchers);

}  // namespace warpline::ucx_internal

#endif  // WARPLINE_TRANSPORT_UCX_UCX_DOOR_H_
