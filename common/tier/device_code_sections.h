// Finds the sections of an ELF file in which compilers put device code. The bytes may be hostile.
#ifndef WARPLINE_COMMON_TIER_DEVICE_CODE_SECTIONS_H_
#define WARPLINE_COMMON_TIER_DEVICE_CODE_SECTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/elf/elf_header.h"
#include "common/elf/sections.h"

namespace warpline::tier {

// Returns where the sections for device code of a file of `size` bytes lie, cut where the file
// ends. Nothing for a file that does not list its sections: no ELF file, one of another kind, one
// that was cut short or stripped of the list.
std::optional<std::vector<elf::FileRange>> DeviceCodeSections(const elf::ReadAt& read,
                                                              uint64_t size);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_DEVICE_CODE_SECTIONS_H_
