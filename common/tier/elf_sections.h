// Finds the sections of an ELF file in which compilers put device code. Safe for whatever bytes.
#ifndef WARPLINE_COMMON_TIER_ELF_SECTIONS_H_
#define WARPLINE_COMMON_TIER_ELF_SECTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace warpline::tier {

// Bytes [offset, offset + bytes) of the file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

// Reads `bytes` at `offset`; fewer where the file ends there.
using ReadAt = std::function<std::string(uint64_t offset, uint64_t bytes)>;

// The sections for device code of a file of `size` bytes, cut where the file ends. None for a file
// that does not list its sections: no ELF, of another kind, cut short, or stripped of the list.
std::optional<std::vector<FileRange>> DeviceCodeSections(const ReadAt& read, uint64_t size);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_ELF_SECTIONS_H_
