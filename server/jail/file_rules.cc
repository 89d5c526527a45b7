#include "server/jail/file_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/unique_fd.h"

namespace warpline::jail {
namespace {

// What the kernel's headers of Debian 12 do not have yet, under the kernel's names.
constexpr uint64_t kAccessFsTruncate = 1ull << 14;        // Version 3.
constexpr uint64_t kAccessFsIoctlDev = 1ull << 15;        // Version 5.
constexpr uint64_t kAccessNetBindTcp = 1ull << 0;         // Version 4.
constexpr uint64_t kAccessNetConnectTcp = 1ull << 1;      // Version 4.
constexpr uint64_t kScopeAbstractUnixSocket = 1ull << 0;  // Version 6.
constexpr uint64_t kScopeSignal = 1ull << 1;              // Version 6.
constexpr int kRuleNetPort = 2;                           // Version 4.
struct NetPortAttributes {
  uint64_t allowed_access;
  uint64_t port;
};
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kReadFolder = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kUseDevice = kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE | kAccessFsIoctlDev;
constexpr uint64_t kMakeFiles = kReadFolder | LANDLOCK_ACCESS_FS_WRITE_FILE | kAccessFsTruncate |
                                LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;
// The rights that a plain file can have.
constexpr uint64_t kOfFiles = kUseDevice | kAccessFsTruncate | LANDLOCK_ACCESS_FS_EXECUTE;

// All rights over files that version 1 knows, those of the first 13 bits.
constexpr uint64_t kAccessFsOfVersion1 = (1ull << 13) - 1;

uint64_t RightsOf(FileAccess access) {
  switch (access) {
    case FileAccess::kRead:
      return kReadFolder;
    case FileAccess::kReadWrite:
      return kUseDevice | kReadFolder;
    case FileAccess::kExecute:
      return kReadFolder | LANDLOCK_ACCESS_FS_EXECUTE;
    case FileAccess::kMake:
      return kMakeFiles;
  }
  return 0;
}

uint64_t HandledAccessFs(int version) {
  uint64_t handled = kAccessFsOfVersion1;
  if (version >= 2) handled |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) handled |= kAccessFsTruncate;
  if (version >= 5) handled |= kAccessFsIoctlDev;
  return handled;
}

absl::StatusOr<UniqueFd> NewRuleset(int version) {
  RulesetAttributes attributes = {HandledAccessFs(version), 0, 0};
  size_t size = sizeof(attributes.handled_access_fs);
  if (version >= 4) {
    attributes.handled_access_net = kAccessNetBindTcp | kAccessNetConnectTcp;
    size += sizeof(attributes.handled_access_net);
  }
  if (version >= 6) {
    attributes.scoped = kScopeAbstractUnixSocket | kScopeSignal;
    size += sizeof(attributes.scoped);
  }
  UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0u)));
  if (!ruleset.valid()) return absl::ErrnoToStatus(errno, "landlock_create_ruleset");
  return ruleset;
}

absl::Status RestrictSelf(int ruleset) {
  if (syscall(SYS_landlock_restrict_self, ruleset, 0u) != 0) {
    return absl::ErrnoToStatus(errno, "landlock_restrict_self");
  }
  return absl::OkStatus();
}

// Allows what lies at or below `fd`. Rights that a plain file cannot have are left out for one.
absl::Status Allow(int ruleset, int fd, const std::string& path, uint64_t access,
                   uint64_t handled) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISDIR(info.st_mode)) access &= kOfFiles;
  landlock_path_beneath_attr beneath = {};
  beneath.allowed_access = access & handled;
  beneath.parent_fd = fd;
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0u) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("landlock_add_rule ", path));
  }
  return absl::OkStatus();
}

absl::Status AllowPath(int ruleset, const std::string& path, uint64_t access, uint64_t handled) {
  const UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.valid()) return absl::OkStatus();  // Nothing is there to be opened.
  return Allow(ruleset, fd.get(), path, access, handled);
}

// The same for a folder of /proc. The kernel forgets its rule when it drops its entry for the
// folder, which an open descriptor prevents: it is never closed.
absl::Status AllowForGood(int ruleset, const std::string& path, uint64_t access, uint64_t handled) {
  const int fd = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? absl::ErrnoToStatus(errno, path) : Allow(ruleset, fd, path, access, handled);
}

// Allows listening there; a port 0 stands for those of the system's choice.
absl::Status AllowListening(int ruleset, const ListenPorts& listens) {
  for (uint32_t port = listens.first; port <= listens.last; ++port) {
    const NetPortAttributes attributes = {kAccessNetBindTcp, port};
    if (syscall(SYS_landlock_add_rule, ruleset, kRuleNetPort, &attributes, 0u) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("landlock_add_rule port ", port));
    }
  }
  return absl::OkStatus();
}

// The folders where the operator said that libraries lie, besides the system's.
std::vector<std::string> LibraryFolders() {
  const char* const folders = getenv("LD_LIBRARY_PATH");
  if (folders == nullptr) return {};
  return absl::StrSplit(folders, ':', absl::SkipEmpty());
}

}  // namespace

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0},
                               unsigned{LANDLOCK_CREATE_RULESET_VERSION});
  return version < 0 ? 0 : static_cast<int>(version);
}

absl::Status RestrictFiles(absl::Span<const FileRule> files, const std::vector<GivenPath>& given,
                           const ListenPorts& listens) {
  const int version = LandlockVersion();
  if (version == 0) return absl::UnimplementedError("the kernel has no Landlock");
  const uint64_t handled = HandledAccessFs(version);
  auto ruleset = NewRuleset(version);
  if (!ruleset.ok()) return ruleset.status();
  absl::Status status;
  for (const FileRule& rule : files) {
    status.Update(AllowPath(ruleset->get(), rule.path, RightsOf(rule.access), handled));
  }
  for (const auto& [path, access] : given) {
    status.Update(AllowPath(ruleset->get(), path, RightsOf(access), handled));
  }
  for (const std::string& folder : LibraryFolders()) {
    status.Update(AllowPath(ruleset->get(), folder, kReadFolder, handled));
  }
  status.Update(AllowForGood(ruleset->get(), "/proc/self", kReadFolder, handled));
  // Where threads are named.
  status.Update(AllowForGood(ruleset->get(), "/proc/self/task",
                             kReadFolder | LANDLOCK_ACCESS_FS_WRITE_FILE | kAccessFsTruncate,
                             handled));
  if (listens.any && version >= 4) status.Update(AllowListening(ruleset->get(), listens));
  return status.ok() ? RestrictSelf(ruleset->get()) : status;
}

absl::Status RefuseFiles() {
  const int version = LandlockVersion();
  if (version == 0) return absl::UnimplementedError("the kernel has no Landlock");
  auto ruleset = NewRuleset(version);
  return ruleset.ok() ? RestrictSelf(ruleset->get()) : ruleset.status();
}

}  // namespace warpline::jail
