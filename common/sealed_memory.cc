#include "common/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpline {

absl::StatusOr<UniqueFd> NewSealedMemory(const char* name, uint64_t bytes) {
  UniqueFd memory(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid() || ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", name, ": ", std::strerror(errno)));
  }
  return memory;
}

void EmptyMemory(int fd, uint64_t bytes) {
  fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
}

absl::StatusOr<uint64_t> SealedBytes(int fd) {
  constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat info;
  if (seals < 0 || (seals & kNeededSeals) != kNeededSeals || fstat(fd, &info) != 0) {
    return absl::InvalidArgumentError("not sealed memory");
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace warpline
