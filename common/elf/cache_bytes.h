// Makes the contents of an ld.so.cache for tests.
#ifndef WARPLINE_COMMON_ELF_CACHE_BYTES_H_
#define WARPLINE_COMMON_ELF_CACHE_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::elf {

struct CachedLibrary {
  std::string name;
  std::string path;
  uint32_t flags = 0x0303;  // For x86-64
  uint64_t processor = 0;   // 0 for any
};

inline std::string CacheBytes(const std::vector<CachedLibrary>& libraries) {
  const auto put = [](auto value, std::string* to) {
    to->append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const size_t strings_at = 48 + 24 * libraries.size();
  std::string head = "glibc-ld.so.cache1.1", strings;
  for (const CachedLibrary& library : libraries) {
    strings += library.name + '\0' + library.path + '\0';
  }
  put(static_cast<uint32_t>(libraries.size()), &head);
  put(static_cast<uint32_t>(strings.size()), &head);
  put(uint32_t{2}, &head);  // Little-endian
  head.resize(48, '\0');
  size_t at = strings_at;
  for (const CachedLibrary& library : libraries) {
    put(library.flags, &head);
    put(static_cast<uint32_t>(at), &head);
    at += library.name.size() + 1;
    put(static_cast<uint32_t>(at), &head);
    at += library.path.size() + 1;
    put(uint32_t{0}, &head);
    put(library.processor, &head);
  }
  return head + strings;
}

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_CACHE_BYTES_H_
