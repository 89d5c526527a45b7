// Makes ELF files for tests: as much of one as tells the dynamic loader which libraries to load.
//
//   const std::string program = ElfBytes({{DT_NEEDED, "libx.so"}, {DT_RUNPATH, "$ORIGIN"}});
#ifndef WARPLINE_COMMON_ELF_ELF_BYTES_H_
#define WARPLINE_COMMON_ELF_ELF_BYTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace warpline::elf {

// A tag of the dynamic section and the text that it stands for.
using DynamicText = std::pair<int64_t, std::string>;

// Returns a file for x86-64 whose dynamic section has these entries in this order, then a
// DT_FLAGS_1 of `flags_1`, unless that is 0. The file is mapped at kElfAddress, so that addresses
// in it are not offsets.
inline constexpr uint64_t kElfAddress = 0x400000;
std::string ElfBytes(const std::vector<DynamicText>& texts, uint64_t flags_1 = 0);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_ELF_BYTES_H_
