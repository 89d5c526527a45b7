#include "transport/ucx/ucx_device.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline::ucx_internal {
namespace {

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

socklen_t SizeOf(const sockaddr& address) {
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// The address in text, without its port.
std::string TextOf(const sockaddr& address) {
  char text[NI_MAXHOST];
  if (getnameinfo(&address, SizeOf(address), text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

}  // namespace

absl::StatusOr<UcxDevice> DeviceTowards(const std::string& peer) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // The port counts for nothing.
  if (getaddrinfo(peer.c_str(), "9", &hints, &found) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", peer, "\" is no IP address"));
  }
  const AddressInfo target(found, &freeaddrinfo);
  const UniqueFd socket(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own = {};
  auto* const own_address = reinterpret_cast<sockaddr*>(&own);
  socklen_t size = sizeof(own);
  if (!socket.valid() || connect(socket.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      getsockname(socket.get(), own_address, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("no way to ", peer, ": ", std::strerror(errno)));
  }
  const std::string text = TextOf(*own_address);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::ErrnoToStatus(errno, "getifaddrs");
  const Interfaces interfaces(all, &freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != own_address->sa_family) continue;
    if (TextOf(*at->ifa_addr) == text) return UcxDevice{at->ifa_name, text};
  }
  return absl::UnavailableError(absl::StrCat("no interface has the address ", text));
}

std::vector<std::string> RdmaDevicesOf(const std::string& interface, const std::string& sys) {
  const std::string folder = absl::StrCat(sys, "/class/net/", interface);
  // The kernel counts a device's ports from 0, and verbs count them from 1.
  int port = 0;
  if (!(std::ifstream(folder + "/dev_port") >> port)) port = 0;
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder + "/device/infiniband", none)) {
    found.push_back(absl::StrCat(entry.path().filename().string(), ":", port + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace warpline::ucx_internal
