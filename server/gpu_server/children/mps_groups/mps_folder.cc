#include "server/gpu_server/children/mps_groups/mps_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

constexpr char kPrefix[] = "warpline-mps-";
// What follows in the longest path of a socket: six characters of chance, the group's number, and
// the daemon's names.
constexpr char kLongest[] = "XXXXXX/4294967295/pipe/control_privileged";

// Another server that removes what is stale may take a folder before it is locked.
constexpr int kAttempts = 5;

// The descriptor with the lock; not valid where another process has it.
UniqueFd Lock(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || info.st_uid != geteuid() ||
      flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return UniqueFd();
  }
  return fd;
}

void RemoveStale(const std::string& place) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!absl::StartsWith(entry->path().filename().string(), kPrefix)) continue;
    const UniqueFd lock = Lock(entry->path());
    std::error_code ignored;
    if (lock.valid()) std::filesystem::remove_all(entry->path(), ignored);
  }
}

// The first of the service's folders, where it has any.
std::string UsualPlace() {
  const char* const folders = getenv("RUNTIME_DIRECTORY");
  if (folders == nullptr || *folders != '/') return "/tmp";
  const std::string all = folders;
  return all.substr(0, all.find(':'));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MpsFolder>> MpsFolder::Make(std::string place) {
  if (place.empty()) place = UsualPlace();
  if (place.size() + 1 + sizeof(kPrefix) + sizeof(kLongest) > sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the path ", place, " is too long for sockets"));
  }
  RemoveStale(place);
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = absl::StrCat(place, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
    UniqueFd lock = Lock(path);
    if (lock.valid() && chmod(path.c_str(), 0711) == 0) {
      return std::unique_ptr<MpsFolder>(new MpsFolder(std::move(path), std::move(lock)));
    }
    status = absl::ErrnoToStatus(errno, path);
    rmdir(path.c_str());
  }
  return status;
}

MpsFolder::~MpsFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace warpline::server
