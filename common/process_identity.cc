#include "common/process_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "common/process_status.h"

namespace warpline {
namespace {

// One read() is enough for these files, which the kernel writes at once.
std::string ReadFile(const std::string& path) {
  char text[1024];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t n = read(fd, text, sizeof(text));
  close(fd);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

uint64_t InodeOf(const char* path) {
  struct stat info;
  return stat(path, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::string BootId() {
  std::string id = ReadFile("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

uint64_t PidNamespace() { return InodeOf("/proc/self/ns/pid"); }

uint64_t UserNamespace() { return InodeOf("/proc/self/ns/user"); }

uint64_t ProcessStartTime(uint32_t pid) {
  const auto status = ReadProcessStatus(static_cast<pid_t>(pid));
  return status.has_value() ? status->started : 0;
}

uint64_t AddressSpaceBytes(uint32_t pid) {
  // In pages.
  const std::string text = ReadFile("/proc/" + std::to_string(pid) + "/statm");
  return std::strtoull(text.c_str(), nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace warpline
