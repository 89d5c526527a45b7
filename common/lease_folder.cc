#include "common/lease_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/text_file.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

// The token is first, so that nobody takes it who would miss the others.
constexpr const char* kFiles[] = {"token", "endpoint", "driver_version", "tier"};

// Empty where there is none.
std::string WordIn(const std::string& path) { return ReadWordFile(path).value_or(""); }

absl::Status Failed(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status Replace(const std::string& path, const std::string& word, mode_t mode) {
  const std::string part = path + ".part";
  // A file that others put there is not followed.
  if (unlink(part.c_str()) != 0 && errno != ENOENT) return Failed(part);
  const UniqueFd file(
      open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  const std::string line = word + "\n";
  // The process's mask may have taken a right to read.
  if (!file.valid() || fchmod(file.get(), mode) != 0 ||
      write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      rename(part.c_str(), path.c_str()) != 0) {
    return Failed(path);
  }
  return absl::OkStatus();
}

mode_t ModeFor(TokenReaders readers) { return readers == TokenReaders::kAll ? 0644 : 0600; }

}  // namespace

absl::Status CheckOwnFolder(const std::string& folder) {
  struct stat info = {};
  // A folder that is not there is said when it is written.
  if (stat(folder.c_str(), &info) != 0) return absl::OkStatus();
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::InvalidArgumentError(absl::StrCat(folder, " belongs to another user"));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("others may write in ", folder));
  }
  return absl::OkStatus();
}

HeldLease ReadLeaseFolder(const std::string& folder) {
  return {.endpoint = WordIn(folder + "/endpoint"),
          .token_file = folder + "/token",
          .driver_version = WordIn(folder + "/driver_version"),
          .tier = WordIn(folder + "/tier")};
}

absl::Status ClearLeaseFolder(const std::string& folder) {
  for (const char* name : kFiles) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed(path);
  }
  return absl::OkStatus();
}

absl::Status WriteLeaseFolder(const std::string& folder, const HeldLease& lease,
                              const std::string& token, TokenReaders readers) {
  const std::string words[] = {token, lease.endpoint, lease.driver_version, lease.tier};
  for (size_t i = std::size(kFiles); i-- > 0;) {
    if (words[i].empty()) continue;
    const mode_t mode = i == 0 ? ModeFor(readers) : 0644;
    auto status = Replace(absl::StrCat(folder, "/", kFiles[i]), words[i], mode);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReplaceTokenIn(const std::string& folder, const std::string& token,
                            TokenReaders readers) {
  return Replace(folder + "/token", token, ModeFor(readers));
}

}  // namespace warpline
