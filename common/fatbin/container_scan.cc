#include "common/fatbin/container_scan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/fatbin/format.h"

namespace warpline::fatbin {
namespace {

constexpr uint64_t kBlock = uint64_t{1} << 20;

// A window on the file's bytes that moves forward.
class Window {
 public:
  Window(const std::function<std::string(uint64_t, uint64_t)>& read, uint64_t end)
      : read_(read), end_(end) {}

  // Returns the bytes from `at` on: a container's header at least, or what is left. Empty where the
  // file ends.
  std::string_view From(uint64_t at) {
    const uint64_t least = std::min<uint64_t>(kContainerHeaderBytes, end_ - at);
    if (at < begin_ || at - begin_ + least > bytes_.size()) {
      begin_ = at;
      bytes_ = read_(at, std::min(kBlock, end_ - at));
    }
    return std::string_view(bytes_).substr(at - begin_);
  }

 private:
  const std::function<std::string(uint64_t, uint64_t)>& read_;
  const uint64_t end_;
  uint64_t begin_ = 0;
  std::string bytes_;
};

}  // namespace

ContainerCount ScanContainers(
    const std::function<std::string(uint64_t offset, uint64_t bytes)>& read, uint64_t begin,
    uint64_t end, const std::function<void(std::string_view container)>& take) {
  ContainerCount count;
  Window window(read, end);
  uint64_t at = begin;
  while (at < end && end - at >= kContainerHeaderBytes) {
    const std::string_view bytes = window.From(at);
    if (bytes.size() < kContainerHeaderBytes) break;
    const size_t found = bytes.find(ContainerMagic());
    if (found == std::string_view::npos) {
      // The block may end within a container's first bytes.
      at += bytes.size() - (ContainerMagic().size() - 1);
      continue;
    }
    if (found > 0 && bytes.size() - found < kContainerHeaderBytes) {
      at += found;
      continue;
    }
    at += found;
    const uint64_t size = ContainerBytes(bytes.substr(found), end - at);
    if (size == 0) {
      at += ContainerMagic().size();
      continue;
    }
    if (size <= bytes.size() - found) {
      ++count.read;
      take(bytes.substr(found, size));
    } else if (size > kMostContainerBytes) {
      ++count.too_large;
    } else {
      const std::string container = read(at, size);
      if (container.size() < size) break;
      ++count.read;
      take(container);
    }
    at += size;
  }
  return count;
}

}  // namespace warpline::fatbin
