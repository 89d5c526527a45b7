// The client's end of a connection through shared memory, for who has its socket already.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_CONNECT_H_
#define WARPLINE_TRANSPORT_SHM_SHM_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "transport/link_end.h"

namespace warpline {

// Takes the rings that the listener at the other end of the connected socket gives. The listener's
// own status where it refuses; UNAVAILABLE when nothing has come until then; INVALID_ARGUMENT for
// what are no rings.
absl::StatusOr<std::unique_ptr<LinkEnd>> ShmConnectOn(UniqueFd socket, absl::Time until);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_SHM_CONNECT_H_
