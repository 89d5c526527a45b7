#include "server/gpu_server/children/relays/networks.h"

#include <arpa/inet.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace warpline::server {
namespace {

// Of an IPv4 address within one of IPv6.
constexpr int kMappedBits = 96;

}  // namespace

std::optional<Networks::Address> Networks::ParseAddress(const std::string& text, bool* ipv4) {
  Address address = {};
  *ipv4 = inet_pton(AF_INET, text.c_str(), &address[12]) == 1;
  if (*ipv4) {
    address[10] = address[11] = 0xff;
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

absl::StatusOr<Networks> Networks::Parse(const std::vector<std::string>& texts) {
  Networks networks;
  for (const std::string& text : texts) {
    const std::vector<std::string> parts = absl::StrSplit(text, '/');
    bool ipv4 = false;
    const auto address = ParseAddress(parts[0], &ipv4);
    const int most = ipv4 ? 32 : 128;
    int bits = most;
    if (!address.has_value() || parts.size() > 2 ||
        (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &bits) || bits < 0 || bits > most))) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is no network such as 10.0.0.0/8"));
    }
    networks.networks_.push_back({*address, bits + (ipv4 ? kMappedBits : 0)});
  }
  return networks;
}

bool Networks::Contains(const std::string& ip) const {
  bool ipv4 = false;
  const auto address = ParseAddress(ip, &ipv4);
  if (!address.has_value()) return false;
  for (const Network& network : networks_) {
    const auto whole = static_cast<size_t>(network.bits / 8);
    const int rest = network.bits % 8;
    if (std::memcmp(address->data(), network.address.data(), whole) != 0) continue;
    if (rest == 0) return true;
    const int mask = 0xff << (8 - rest);
    if ((((*address)[whole] ^ network.address[whole]) & mask) == 0) return true;
  }
  return false;
}

std::string IpOfPeer(absl::string_view peer) {
  peer = peer.substr(0, peer.find(' '));
  peer = peer.substr(0, peer.rfind(':'));  // The port.
  if (absl::ConsumePrefix(&peer, "ipv4:")) return std::string(peer);
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return "";
  // gRPC escapes the brackets.
  std::string ip = absl::StrReplaceAll(peer, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  // What listens at every address sees those of IPv4 mapped.
  return std::string(absl::StripPrefix(ip, "::ffff:"));
}

}  // namespace warpline::server
