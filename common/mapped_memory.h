// Memory behind a descriptor, mapped in this process.
#ifndef WARPLINE_COMMON_MAPPED_MEMORY_H_
#define WARPLINE_COMMON_MAPPED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpline {

// Thread-compatible. Unmaps the memory when it is destroyed.
class MappedMemory {
 public:
  // Maps `bytes` behind `fd` (borrowed) from `offset` on, to be read and written, with huge pages
  // where the system gives them. `offset` is a multiple of the page's size. RESOURCE_EXHAUSTED,
  // with errno's text, when it cannot be mapped.
  static absl::StatusOr<MappedMemory> Map(int fd, uint64_t bytes, uint64_t offset = 0);

  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Takes all pages from the system now, which may last a second for each GiB. RESOURCE_EXHAUSTED,
  // with errno's text, when it does not have them.
  absl::Status Populate();

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  MappedMemory(char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_MAPPED_MEMORY_H_
