// Addresses of this transport: "shm://NAME", where NAME is the abstract name of a unix socket of
// this host. Private to transport/shm, but for who makes one.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_
#define WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace warpline {

inline constexpr Transport kShmTransport = {
    .scheme = "shm", .can = TransportCapabilities(TransportCapability::kListenerUid)};

// Where a server that listens at a loopback address ("127.0.0.1:14000", "[::1]:14000",
// "localhost:14000") is reached through shared memory at once, without a connection there:
// addresses of this transport, best first. None for other addresses. Who listens at them must be
// asked: names are anybody's.
std::vector<std::string> ShmAddressesAt(absl::string_view address);

// The name in an address; INVALID_ARGUMENT for one that is none of this transport's.
absl::StatusOr<absl::string_view> ShmName(absl::string_view address);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_
