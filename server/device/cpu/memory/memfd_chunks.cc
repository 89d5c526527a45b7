#include "server/device/cpu/memory/memfd_chunks.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "server/device/cpu/memory/memory_map.h"

namespace warpline::cpu {

absl::StatusOr<UniqueFd> MemfdChunks::CreateChunk(uint64_t bytes) {
  if (bytes == 0 || bytes % kGranuleBytes != 0 || bytes > uint64_t{1} << 46) {
    return absl::InvalidArgumentError("chunk size is not a multiple of 2 MiB");
  }
  return NewSealedMemory("warpline-chunk", bytes);
}

absl::Status MemfdChunks::ScrubChunk(int fd, uint64_t bytes) {
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) !=
      0) {
    return absl::InternalError(absl::StrCat("fallocate: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace warpline::cpu
