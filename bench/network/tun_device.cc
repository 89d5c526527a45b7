#include "bench/network/tun_device.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/network/packet.h"

namespace warpline {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<UniqueFd> OpenHere(int pid, const std::string& name) {
  const std::string path = absl::StrCat("/proc/", pid, "/ns/net");
  const UniqueFd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.valid() || setns(space.get(), CLONE_NEWNET) != 0) return Failed(path);
  UniqueFd tun(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun.valid()) return Failed("/dev/net/tun");
  ifreq request = {};
  if (name.size() >= sizeof(request.ifr_name)) return absl::InvalidArgumentError("too long a name");
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tun.get(), TUNSETIFF, &request) != 0) return Failed("TUNSETIFF");
  int header = sizeof(OffloadHeader);
  if (ioctl(tun.get(), TUNSETVNETHDRSZ, &header) != 0) return Failed("TUNSETVNETHDRSZ");
  return tun;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenTun(int pid, const std::string& name) {
  absl::StatusOr<UniqueFd> tun = absl::UnknownError("");
  // A thread of its own enters the namespace, and leaves it by ending.
  std::thread([&] { tun = OpenHere(pid, name); }).join();
  return tun;
}

absl::Status SetOffloads(int tun, bool on) {
  const unsigned flags = on ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : 0;
  return ioctl(tun, TUNSETOFFLOAD, flags) == 0 ? absl::OkStatus() : Failed("TUNSETOFFLOAD");
}

}  // namespace warpline
