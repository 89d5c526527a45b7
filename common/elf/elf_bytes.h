// Makes ELF files for tests: as much of one as tells the dynamic loader which libraries to load, or
// as has sections.
//
//   const std::string program = ElfBytes({{DT_NEEDED, "libx.so"}, {DT_RUNPATH, "$ORIGIN"}});
//   const std::string object = SectionsBytes({{.name = ".text", .contents = "code"}});
#ifndef WARPLINE_COMMON_ELF_ELF_BYTES_H_
#define WARPLINE_COMMON_ELF_ELF_BYTES_H_

#include <elf.h>

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

struct SectionText {
  std::string name;
  std::string contents = "";
  uint32_t type = SHT_PROGBITS;
  uint32_t link = 0;
  uint64_t size = 0;  // In the table, for one of type SHT_NOBITS
};

// Returns a 64-bit file with an empty section, these and ".shstrtab", their names, in this order.
// The table of sections is at the end of the file.
std::string SectionsBytes(const std::vector<SectionText>& sections);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_ELF_BYTES_H_
