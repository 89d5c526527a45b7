#include "tools/cli/token_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpline::cli {
namespace {

constexpr char kName[] = "token";
constexpr char kPart[] = "token.part";

// Opens the folder, and not what another user has put in its place. Invalid if it is not ours
// alone.
UniqueFd OpenOwnFolder(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about = {};
  if (!folder.valid() || fstat(folder.get(), &about) != 0 || about.st_uid != geteuid() ||
      (about.st_mode & 0077) != 0) {
    return UniqueFd();
  }
  return folder;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Create(const std::string& token) {
  std::string error = "no folder";
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const char* base = *variable == '\0' ? "/tmp" : getenv(variable);
    if (base == nullptr || *base != '/') continue;
    std::string folder = absl::StrCat(base, "/warpline-run-XXXXXX");
    if (mkdtemp(folder.data()) == nullptr) {
      error = absl::StrCat(base, ": ", std::strerror(errno));
      continue;
    }
    auto file = Adopt(absl::StrCat(folder, "/", kName));
    const absl::Status written = file->Replace(token);
    if (written.ok()) return file;
    error = std::string(written.message());
  }
  return absl::UnavailableError(absl::StrCat("cannot keep the lease's token in a file: ", error));
}

std::unique_ptr<TokenFile> TokenFile::Adopt(const std::string& path) {
  std::string folder = path.substr(0, path.rfind('/'));
  UniqueFd opened = OpenOwnFolder(folder);
  return std::unique_ptr<TokenFile>(new TokenFile(std::move(folder), std::move(opened)));
}

TokenFile::~TokenFile() {
  if (left_ || !opened_.valid()) return;
  unlinkat(opened_.get(), kPart, 0);
  unlinkat(opened_.get(), kName, 0);
  rmdir(folder_.c_str());
}

absl::Status TokenFile::Replace(const std::string& token) {
  const std::string line = token + "\n";
  const int folder = opened_.get();
  const UniqueFd file(
      openat(folder, kPart, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid() ||
      write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      renameat(folder, kPart, folder, kName) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path(), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

std::string TokenFile::path() const { return absl::StrCat(folder_, "/", kName); }

}  // namespace warpline::cli
