// Addresses of this transport: "ucx://IP/HEX", where IP is the address of the relay's host that its
// client reaches, and HEX what UCX calls the address of a worker. Only a relay can make one.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_ADDRESS_H_
#define WARPLINE_TRANSPORT_UCX_UCX_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace warpline {

inline constexpr Transport kUcxTransport = {
    .scheme = "ucx", .can = TransportCapabilities(TransportCapability::kSecret)};

struct UcxAddress {
  std::string ip;
  std::string worker;

  std::string ToString() const;
  // INVALID_ARGUMENT for what is none of this transport's.
  static absl::StatusOr<UcxAddress> Parse(absl::string_view address);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UCX_UCX_ADDRESS_H_
