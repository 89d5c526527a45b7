#include "common/plain_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

absl::Status Unreadable(const std::string& path, absl::StatusCode code, const char* why) {
  return absl::Status(code, absl::StrCat("cannot read ", path, ": ", why));
}

absl::Status Unreadable(const std::string& path, int error) {
  const auto code = error == ENOENT || error == ENOTDIR ? absl::StatusCode::kNotFound
                    : error == EACCES || error == EPERM ? absl::StatusCode::kPermissionDenied
                                                        : absl::StatusCode::kInvalidArgument;
  return Unreadable(path, code, std::strerror(error));
}

// Names what is no plain file; null for what is one.
const char* OtherKind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe";
  if (S_ISSOCK(mode)) return "it is a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "it is a device";
  return "it is not a file";
}

}  // namespace

PlainFile::PlainFile(UniqueFd file, const struct stat& about)
    : file_(std::move(file)), about_(about) {}

absl::StatusOr<PlainFile> PlainFile::Open(const std::string& path) {
  // A NUL would cut the name short.
  if (path.find('\0') != std::string::npos) return Unreadable(path, ENOENT);
  // Opening some devices already has an effect (a watchdog starts), so the file is found first,
  // looked at, and only then opened for reading: the very same one, by its descriptor.
  const UniqueFd found(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat about = {};
  if (!found.valid() || fstat(found.get(), &about) != 0) return Unreadable(path, errno);
  if (const char* const other = OtherKind(about.st_mode); other != nullptr) {
    return Unreadable(path, absl::StatusCode::kInvalidArgument, other);
  }
  UniqueFd file(open(absl::StrCat("/proc/self/fd/", found.get()).c_str(),
                     O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file.valid() || fstat(file.get(), &about) != 0) return Unreadable(path, errno);
  return PlainFile(std::move(file), about);
}

std::string PlainFile::Read(uint64_t offset, uint64_t bytes) const {
  if (offset >= size()) return "";
  std::string text(std::min(bytes, size() - offset), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t more =
        pread(file_.get(), text.data() + got, text.size() - got, static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<size_t>(more);
  }
  text.resize(got);
  return text;
}

}  // namespace warpline
