#include "server/gpu_server/saved/file_errors.h"

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

}  // namespace warpline::server
