#include "server/hostlink/process/priority.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

#include "common/unique_fd.h"

namespace warpline {
namespace {

constexpr int kFirst = -10;
constexpr std::string_view kFirstText = "-10";

}  // namespace

bool GoFirst() {
  if (getpriority(PRIO_PROCESS, 0) != 0 || setpriority(PRIO_PROCESS, 0, kFirst) != 0) return false;
  // Where the kernel shares the processors by login session first, niceness counts only within one.
  // That of somebody else, such as a shell's, stays as it is.
  if (getsid(0) != getpid()) return true;
  const UniqueFd group(open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC));
  if (!group.valid()) return true;  // The kernel does no such thing.
  return write(group.get(), kFirstText.data(), kFirstText.size()) ==
         static_cast<ssize_t>(kFirstText.size());
}

void GoAsUsual() {
  if (getpriority(PRIO_PROCESS, 0) == kFirst) setpriority(PRIO_PROCESS, 0, 0);
}

}  // namespace warpline
