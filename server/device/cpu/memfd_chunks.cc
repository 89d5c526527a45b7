#include "server/device/cpu/memfd_chunks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/memory_map.h"

namespace warpline::cpu {

absl::StatusOr<UniqueFd> MemfdChunks::CreateChunk(uint64_t bytes) {
  if (bytes == 0 || bytes % kGranuleBytes != 0 || bytes > uint64_t{1} << 46) {
    return absl::InvalidArgumentError("chunk size is not a multiple of 2 MiB");
  }
  UniqueFd fd(memfd_create("warpline-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("memfd: ", std::strerror(errno)));
  }
  return fd;
}

absl::Status MemfdChunks::ScrubChunk(int fd, uint64_t bytes) {
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) !=
      0) {
    return absl::InternalError(absl::StrCat("fallocate: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace warpline::cpu
