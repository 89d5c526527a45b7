#include "server/variable_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace warpline {

absl::StatusOr<UniqueFd> CreateVariableFile() {
  UniqueFd fd(memfd_create("warpline-variables", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(kVariableFileBytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError("no memory to save variables in");
  }
  return fd;
}

}  // namespace warpline
