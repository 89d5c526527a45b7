// Reads /etc/ld.so.cache, in which ldconfig lists the libraries of the system's folders
// (glibc-ld.so.cache1.1, which glibc has written since 2.32). Safe for whatever bytes.
#ifndef WARPLINE_COMMON_ELF_LOADER_CACHE_H_
#define WARPLINE_COMMON_ELF_LOADER_CACHE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::elf {

// Thread-safe after construction.
class LoaderCache {
 public:
  // A system's cache has some hundred kilobytes.
  static constexpr size_t kMostBytes = size_t{16} << 20;

  // Takes the contents of the file. What is no cache of that format has no libraries.
  explicit LoaderCache(std::string bytes);

  // The paths of libraries for x86-64 with this name. Those that any processor can run come first,
  // then those for newer ones (glibc-hwcaps). At most kMostPaths.
  std::vector<std::string> Find(std::string_view name) const;

  static constexpr size_t kMostPaths = 8;

 private:
  // Returns true if `name` and a NUL behind it are at `at`.
  bool Names(size_t at, std::string_view name) const;
  std::string PathAt(size_t at) const;

  const std::string bytes_;
  size_t entries_ = 0;
};

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_LOADER_CACHE_H_
