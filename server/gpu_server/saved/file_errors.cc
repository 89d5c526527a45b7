#include "server/gpu_server/saved/file_errors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpline::server {

absl::Status FileError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::Status ChangedFile(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, " is not what was written"));
}

absl::Status MalformedFile(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<UniqueFd> OpenSavedFile(const std::string& path, uint64_t bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return FileError(path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return MalformedFile(path, "not a file");
  }
  if (static_cast<uint64_t>(info.st_size) != bytes) return ChangedFile(path);
  return fd;
}

}  // namespace warpline::server
