#include "tools/cli/program_check.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/elf/elf_header.h"
#include "common/plain_file.h"

namespace warpline::cli {
namespace {

bool IsProgram(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (IsProgram(name)) return name;
    const int error = access(name.c_str(), F_OK) != 0 ? errno : EACCES;
    const std::string why = absl::StrCat("cannot run ", name, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(why) : absl::PermissionDeniedError(why);
  }
  const char* path = getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (!name.empty() && IsProgram(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("cannot run ", name, ": not found in PATH"));
}

std::string WhatIsWrongWith(const std::string& path) {
  struct stat info = {};
  const bool other_owner = stat(path.c_str(), &info) == 0 &&
                           (((info.st_mode & S_ISUID) != 0 && info.st_uid != geteuid()) ||
                            ((info.st_mode & S_ISGID) != 0 && info.st_gid != getegid()));
  if (other_owner || getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return absl::StrCat(path,
                        " runs with privileges of its own (setuid, setgid or file capabilities): "
                        "the system then ignores LD_LIBRARY_PATH, and it cannot find Warpline");
  }
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return "";
  const elf::ReadAt read = [&file](uint64_t offset, uint64_t bytes) {
    return file->Read(offset, bytes);
  };
  if (!elf::IsElf(read(0, SELFMAG))) return "";
  const auto header = elf::ReadHeader(read);
  if (!header.has_value() || !elf::IsForX86_64(*header)) {
    return absl::StrCat(path, " is not a program for 64-bit x86: it cannot load Warpline");
  }
  const std::vector<Elf64_Phdr> segments = elf::ReadSegments(*header, read);
  const bool has_interpreter =
      std::any_of(segments.begin(), segments.end(),
                  [](const Elf64_Phdr& segment) { return segment.p_type == PT_INTERP; });
  if (!has_interpreter) {
    return absl::StrCat(path,
                        " is statically linked: it loads no libcuda.so.1 itself; only programs "
                        "that it starts use Warpline");
  }
  return "";
}

}  // namespace warpline::cli
