#include "common/lease_folder.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

// Lets its owner read and write a file, another user read it, and nobody else. Returns false, with
// errno, where that cannot be.
bool LetRead(int file, uid_t user) {
  const uint32_t none = ACL_UNDEFINED_ID;
  const struct {
    posix_acl_xattr_header header;
    posix_acl_xattr_entry entries[5];
  } list = {{htole32(POSIX_ACL_XATTR_VERSION)},
            {{htole16(ACL_USER_OBJ), htole16(ACL_READ | ACL_WRITE), htole32(none)},
             {htole16(ACL_USER), htole16(ACL_READ), htole32(user)},
             {htole16(ACL_GROUP_OBJ), 0, htole32(none)},
             {htole16(ACL_MASK), htole16(ACL_READ), htole32(none)},
             {htole16(ACL_OTHER), 0, htole32(none)}}};
  return fsetxattr(file, XATTR_NAME_POSIX_ACL_ACCESS, &list, sizeof(list), 0) == 0;
}

absl::Status Replace(const std::string& path, const std::string& word, mode_t mode,
                     std::optional<uid_t> user = std::nullopt) {
  const std::string part = path + ".part";
  // A file that others put there is not followed.
  if (unlink(part.c_str()) != 0 && errno != ENOENT) return Failed(part);
  const UniqueFd file(
      open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  const std::string line = word + "\n";
  // The process's mask may have taken a right to read.
  if (!file.valid() || fchmod(file.get(), mode) != 0) return Failed(path);
  if (user.has_value() && !LetRead(file.get(), *user)) {
    const int error = errno;
    (void)unlink(part.c_str());
    return absl::UnavailableError(
        absl::StrCat("cannot let user ", *user, " read ", path, ": ", std::strerror(error)));
  }
  if (write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      rename(part.c_str(), path.c_str()) != 0) {
    return Failed(path);
  }
  return absl::OkStatus();
}

mode_t ModeFor(const TokenReaders& readers) { return readers.all ? 0644 : 0600; }

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
                              const std::string& token, const TokenReaders& readers) {
  const std::string words[] = {token, lease.endpoint, lease.driver_version, lease.tier};
  for (size_t i = std::size(kFiles); i-- > 0;) {
    if (words[i].empty()) continue;
    auto status = i == 0 ? ReplaceTokenIn(folder, token, readers)
                         : Replace(absl::StrCat(folder, "/", kFiles[i]), words[i], 0644);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReplaceTokenIn(const std::string& folder, const std::string& token,
                            const TokenReaders& readers) {
  return Replace(folder + "/token", token, ModeFor(readers), readers.user);
}

}  // namespace warpline
