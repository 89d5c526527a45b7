#include <memory>
#include <string>
#include <utility>

#include "transport/shm/shm_address.h"
#include "transport/shm/shm_listener.h"
#include "transport/transport.h"

namespace warpline {
namespace {

// Other hosts reach none, and the kernel says who connects.
absl::Status CheckShmAddress(const std::string& address, bool) { return ShmName(address).status(); }

std::unique_ptr<Listener> MakeShmListener(ListenerOptions options) {
  return std::make_unique<shm_internal::ShmListener>(std::move(options));
}

}  // namespace

ServerEnd ShmServerEnd() {
  return {.transport = kShmTransport, .check = &CheckShmAddress, .make = &MakeShmListener};
}

}  // namespace warpline
