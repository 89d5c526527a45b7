#include "tools/cli/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline::cli {

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
    auto file = std::unique_ptr<TokenFile>(new TokenFile(folder));
    if (auto status = file->Replace(token); !status.ok()) return status;
    return file;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot make a folder for the lease's token: ", error));
}

TokenFile::~TokenFile() {
  unlink((path_ + ".part").c_str());
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

absl::Status TokenFile::Replace(const std::string& token) {
  const std::string part = path_ + ".part";
  const std::string line = token + "\n";
  const UniqueFd file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid() ||
      write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      rename(part.c_str(), path_.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace warpline::cli
