#include "common/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpline {

absl::StatusOr<MappedMemory> MappedMemory::Map(int fd, uint64_t bytes, uint64_t offset) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  }
  madvise(data, bytes, MADV_HUGEPAGE);  // Without huge pages it works, too.
  return MappedMemory(static_cast<char*>(data), bytes);
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::Status MappedMemory::Populate() {
  if (madvise(data_, bytes_, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("madvise: ", std::strerror(errno)));
}

}  // namespace warpline
