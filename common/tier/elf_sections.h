// Finds the sections of an ELF file in which compilers put device code. Safe for whatever bytes.
#ifndef WARPLINE_COMMON_TIER_ELF_SECTIONS_H_
#define WARPLINE_COMMON_TIER_ELF_SECTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/elf/elf_header.h"

namespace warpline::tier {

// Bytes [offset, offset + bytes) of the file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

// The sections for device code of a file of `size` bytes, cut where the file ends. None for a file
// that does not list its sections: no ELF, of another kind, cut short, or stripped of the list.
std::optional<std::vector<FileRange>> DeviceCodeSections(const elf::ReadAt& read, uint64_t size);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_ELF_SECTIONS_H_
