#include "server/jail/kernel_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline::jail {

absl::Status WriteSystemFile(const std::string& path, absl::string_view text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid() || write(file.get(), text.data(), text.size()) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
  }
  return absl::OkStatus();
}

bool HasCapabilities(uint32_t bits) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & bits) == bits;
}

}  // namespace warpline::jail
