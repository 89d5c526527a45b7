// Finds the fatbin containers of a file of any size. It holds at most one container and one block
// of the file in memory. The bytes need not be trusted.
//
//   const ContainerCount count = ScanContainers(read, 0, size, [](std::string_view container) {
//     const auto entries = ParseImage(container);
//     ...
//   });
#ifndef WARPLINE_COMMON_FATBIN_CONTAINER_SCAN_H_
#define WARPLINE_COMMON_FATBIN_CONTAINER_SCAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace warpline::fatbin {

// Larger containers are counted, and not read.
inline constexpr uint64_t kMostContainerBytes = uint64_t{512} << 20;

struct ContainerCount {
  uint64_t read = 0;
  uint64_t too_large = 0;
};

// Calls `take` with each container of the bytes [begin, end) of a file, in their order: those that
// FindContainers() finds in the same bytes. `read` returns `bytes` bytes at `offset`, fewer where
// the file ends. What `take` is given is valid during the call. Thread-safe as far as `read` is.
ContainerCount ScanContainers(
    const std::function<std::string(uint64_t offset, uint64_t bytes)>& read, uint64_t begin,
    uint64_t end, const std::function<void(std::string_view container)>& take);

}  // namespace warpline::fatbin

#endif  // WARPLINE_COMMON_FATBIN_CONTAINER_SCAN_H_
