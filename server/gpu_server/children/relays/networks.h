// Networks by their addresses, as operators name them: "10.0.0.0/8,fd00::/8".
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_NETWORKS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_NETWORKS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::server {

class Networks {
 public:
  // INVALID_ARGUMENT, naming it, for what is no network; an address alone is one of itself.
  static absl::StatusOr<Networks> Parse(const std::vector<std::string>& texts);

  bool empty() const { return networks_.empty(); }
  // Whether `ip` is in one of them; not for what is no IP address.
  bool Contains(const std::string& ip) const;

 private:
  // An IPv4 address is one of IPv6, as the kernel maps them.
  using Address = std::array<uint8_t, 16>;
  struct Network {
    Address address;
    int bits;
  };
  static std::optional<Address> ParseAddress(const std::string& text, bool* ipv4);

  std::vector<Network> networks_;
};

// The IP address of a peer as Acceptor::Accept() gets it: "ipv4:10.0.0.7:5555 cn=alice". Empty for
// one that has none.
std::string IpOfPeer(absl::string_view peer);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_NETWORKS_H_
