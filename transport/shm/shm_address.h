// Addresses of this transport: "shm://NAME", where NAME is the abstract name of a unix socket of
// this host. Private to transport/shm, but for who makes one.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_
#define WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace warpline {

inline constexpr Transport kShmTransport = {
    .scheme = "shm", .can = TransportCapabilities(TransportCapability::kListenerUid)};

// The name in an address; INVALID_ARGUMENT for one that is none of this transport's.
absl::StatusOr<absl::string_view> ShmName(absl::string_view address);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_SHM_ADDRESS_H_
