#include "server/device/cpu/memory/memfd_chunks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "server/device/cpu/memory/memory_map.h"

namespace warpline::cpu {
namespace {

// Calls `copy`, which is pread or pwrite, until all of the part is copied.
template <typename Copy>
absl::Status CopyPart(Copy copy, int fd, const device::ChunkSource::Part& part) {
  uint64_t done = 0;
  while (done < part.bytes) {
    const ssize_t copied = copy(fd, static_cast<char*>(part.host) + done, part.bytes - done,
                                static_cast<off_t>(part.offset + done));
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) {
      return absl::InternalError(absl::StrCat("a chunk's file: ", std::strerror(errno)));
    }
    done += static_cast<uint64_t>(copied);
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<std::vector<bool>> MemfdChunks::FindUsed(int fd, uint64_t bytes) {
  std::vector<bool> used((bytes + kUsedGranule - 1) / kUsedGranule, false);
  std::vector<char> block(kUsedGranule);
  for (size_t i = 0; i < used.size(); ++i) {
    const uint64_t begin = i * kUsedGranule;
    // A hole holds zeros.
    const off_t data = lseek(fd, static_cast<off_t>(begin), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data < 0) return absl::InternalError(absl::StrCat("lseek: ", std::strerror(errno)));
    i = static_cast<size_t>(data) / kUsedGranule;
    if (i >= used.size()) break;
    const Part part = {i * kUsedGranule, block.data(),
                       std::min(kUsedGranule, bytes - i * kUsedGranule)};
    if (absl::Status read = CopyPart(&pread, fd, part); !read.ok()) return read;
    used[i] = std::any_of(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(part.bytes),
                          [](char byte) { return byte != 0; });
  }
  return used;
}

absl::Status MemfdChunks::CopyOut(int fd, uint64_t, absl::Span<const Part> parts) {
  for (const Part& part : parts) {
    if (absl::Status copied = CopyPart(&pread, fd, part); !copied.ok()) return copied;
  }
  return absl::OkStatus();
}

absl::Status MemfdChunks::CopyIn(int fd, uint64_t, absl::Span<const Part> parts) {
  for (const Part& part : parts) {
    if (absl::Status copied = CopyPart(&pwrite, fd, part); !copied.ok()) return copied;
  }
  return absl::OkStatus();
}

}  // namespace warpline::cpu
