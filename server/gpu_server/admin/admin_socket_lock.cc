#include "server/gpu_server/admin/admin_socket_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/log/log.h"

namespace warpline::server {
namespace {

constexpr char kLockEnd[] = ".sock.lock";
constexpr char kLock[] = ".lock";
// Another server that starts may hold the lock for a moment, to see whether somebody else does.
constexpr int kMostTries = 100;
constexpr absl::Duration kPause = absl::Milliseconds(10);

// Whether the path still leads to the file that is open: who removes a lock holds it.
bool IsAt(const UniqueFd& file, const std::string& path) {
  struct stat open_file = {};
  struct stat at_path = {};
  return fstat(file.get(), &open_file) == 0 && lstat(path.c_str(), &at_path) == 0 &&
         open_file.st_ino == at_path.st_ino && open_file.st_dev == at_path.st_dev &&
         S_ISREG(open_file.st_mode) && open_file.st_uid == geteuid();
}

// Nobody listens at a socket of this user's.
bool IsDeaf(const std::string& path) {
  struct stat about = {};
  sockaddr_un address = {};
  if (lstat(path.c_str(), &about) != 0 || !S_ISSOCK(about.st_mode) || about.st_uid != geteuid() ||
      path.size() >= sizeof(address.sun_path)) {
    return false;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return fd.valid() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

// Returns whether there was a socket to be removed.
bool RemoveIfStale(const std::string& lock_path) {
  const UniqueFd file(open(lock_path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() || !IsAt(file, lock_path) || flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
      !IsAt(file, lock_path)) {
    return false;
  }
  const std::string socket = lock_path.substr(0, lock_path.size() - (sizeof(kLock) - 1));
  const bool there = access(socket.c_str(), F_OK) == 0;
  if (there && (!IsDeaf(socket) || unlink(socket.c_str()) != 0)) return false;
  unlink(lock_path.c_str());
  return there;
}

}  // namespace

absl::StatusOr<AdminSocketLock> AdminSocketLock::Take(const std::string& socket) {
  const std::string path = socket + kLock;
  for (int i = 0; i < kMostTries; ++i) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) break;
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (IsAt(file, path)) return AdminSocketLock(path, std::move(file));
    } else if (errno != EWOULDBLOCK) {
      break;
    } else {
      absl::SleepFor(kPause);
    }
  }
  return absl::UnavailableError(absl::StrCat("cannot lock ", path, ": ", std::strerror(errno)));
}

AdminSocketLock::~AdminSocketLock() {
  if (file_.valid()) unlink(path_.c_str());
}

int RemoveStaleAdminSockets(const std::string& folder) {
  std::vector<std::string> locks;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    if (absl::EndsWith(path, kLockEnd)) locks.push_back(path);
  }
  int removed = 0;
  for (const std::string& lock : locks) {
    if (!RemoveIfStale(lock)) continue;
    ++removed;
    LogInfo("removed what a server that was killed left: ", lock);
  }
  return removed;
}

}  // namespace warpline::server
