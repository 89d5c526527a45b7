#include "transport/ucx/ucx_door.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline::ucx_internal {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// This process's.
std::vector<int> Descriptors() {
  std::vector<int> found;
  const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/fd"));
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder.get())) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd)) found.push_back(fd);
  }
  return found;
}

bool ListensAt(int fd, const std::string& ip) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  sockaddr_storage at = {};
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  size = sizeof(at);
  if (getsockname(fd, address, &size) != 0) return false;
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 &&
         text == ip;
}

}  // namespace

std::set<int> ListenersAt(const std::string& ip) {
  std::set<int> found;
  for (const int fd : Descriptors()) {
    if (ListensAt(fd, ip)) found.insert(fd);
  }
  return found;
}

std::vector<int> WatchersOf(int fd) {
  std::vector<int> found;
  for (const int watcher : Descriptors()) {
    std::ifstream info(absl::StrCat("/proc/self/fdinfo/", watcher));
    for (std::string line; std::getline(info, line);) {
      std::istringstream words(line);
      std::string name;
      int watched = -1;
      if (words >> name >> watched && name == "tfd:" && watched == fd) found.push_back(watcher);
    }
  }
  return found;
}

absl::Status CloseToStrangers(int listener, const std::vector<int>& watchers) {
  const UniqueFd nothing(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!nothing.valid() || dup3(nothing.get(), listener, O_CLOEXEC) < 0) {
    return absl::ErrnoToStatus(errno, "cannot close what UCX listens at");
  }
  for (const int watcher : watchers) {
    epoll_event none = {};
    (void)epoll_ctl(watcher, EPOLL_CTL_ADD, listener, &none);
  }
  return absl::OkStatus();
}

}  // namespace warpline::ucx_internal
