#include "server/gpu_server/admin/admin_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

// Empty unless the variable holds a path.
std::string Folder(const char* variable) {
  const char* const value = getenv(variable);
  if (value == nullptr || *value != '/') return "";
  const std::string all = value;
  return all.substr(0, all.find(':'));  // systemd names several, the first of which is ours.
}

// From the best to the one that is always there.
std::vector<std::string> OwnFolders() {
  std::vector<std::string> folders;
  const std::string runtime = Folder("XDG_RUNTIME_DIR");
  if (!runtime.empty()) folders.push_back(runtime + "/warpline");
  if (geteuid() == 0) folders.emplace_back("/run/warpline");
  folders.push_back(absl::StrCat("/tmp/warpline-", geteuid()));
  return folders;
}

}  // namespace

absl::Status CheckAdminSocket(const std::string& chosen) {
  if (chosen == "auto" || chosen == "none" || absl::StartsWith(chosen, "/")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--admin_socket=", chosen, ": it is auto, none, or an absolute path"));
}

absl::Status MakeOwnFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        absl::StrCat("cannot make the folder ", folder, ": ", std::strerror(errno)));
  }
  struct stat about = {};
  if (lstat(folder.c_str(), &about) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot look at the folder ", folder, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(folder, " is not a folder that this user alone may write to"));
  }
  // One that was made before may be on a file system that this process has read-only.
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write to the folder ", folder, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AdminSocketPath(const std::string& chosen, const std::string& name) {
  if (chosen == "none") return std::string();
  if (chosen != "auto") return chosen;
  const std::string service = Folder("RUNTIME_DIRECTORY");
  if (!service.empty()) return service + "/admin.sock";
  absl::Status made;
  for (const std::string& folder : OwnFolders()) {
    made = MakeOwnFolder(folder);
    if (made.ok()) return absl::StrCat(folder, "/admin-", name, ".sock");
  }
  return made;
}

}  // namespace warpline::server
