#include "common/lease_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

constexpr std::streamsize kMostBytes = 4096;
// The token is first, so that nobody takes it who would miss the others.
constexpr const char* kFiles[] = {"token", "endpoint", "driver_version", "tier"};

std::string FirstWord(const std::string& path) {
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  std::ifstream file(path);
  file.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

absl::Status Failed(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status Replace(const std::string& path, const std::string& word) {
  const std::string part = path + ".part";
  // A file that others put there is not followed.
  if (unlink(part.c_str()) != 0 && errno != ENOENT) return Failed(part);
  const UniqueFd file(
      open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const std::string line = word + "\n";
  // The process's mask may have taken the others' right to read.
  if (!file.valid() || fchmod(file.get(), 0644) != 0 ||
      write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      rename(part.c_str(), path.c_str()) != 0) {
    return Failed(path);
  }
  return absl::OkStatus();
}

}  // namespace

HeldLease ReadLeaseFolder(const std::string& folder) {
  return {.endpoint = FirstWord(folder + "/endpoint"),
          .token_file = folder + "/token",
          .driver_version = FirstWord(folder + "/driver_version"),
          .tier = FirstWord(folder + "/tier")};
}

absl::Status ClearLeaseFolder(const std::string& folder) {
  for (const char* name : kFiles) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed(path);
  }
  return absl::OkStatus();
}

absl::Status WriteLeaseFolder(const std::string& folder, const HeldLease& lease,
                              const std::string& token) {
  const std::string words[] = {token, lease.endpoint, lease.driver_version, lease.tier};
  for (size_t i = std::size(kFiles); i-- > 0;) {
    if (words[i].empty()) continue;
    auto status = Replace(absl::StrCat(folder, "/", kFiles[i]), words[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReplaceTokenIn(const std::string& folder, const std::string& token) {
  return Replace(folder + "/token", token);
}

}  // namespace warpline
