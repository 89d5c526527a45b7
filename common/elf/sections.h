// Reads the sections of an ELF file as data, with the names and symbols in them: 64-bit,
// little-endian. The bytes may be hostile: no offset, size or index in them is believed.
//
//   const elf::ReadAt read = elf::InMemory(bytes);
//   const auto header = elf::ReadHeader(read);
//   if (!header.has_value() || !elf::Is64Bit(*header)) return "it is no ELF file";
//   const auto sections = elf::ReadSections(*header, read, bytes.size(), {});
//   if (!sections.ok()) return sections.status();
//   for (const elf::Section& section : *sections) {
//     if (section.name == ".text") Use(elf::ContentsOf(section, bytes.size()));
//   }
#ifndef WARPLINE_COMMON_ELF_SECTIONS_H_
#define WARPLINE_COMMON_ELF_SECTIONS_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elf/elf_header.h"

namespace warpline::elf {

// The functions of this header are thread-safe as far as a `read` is that they are given.

// Bytes [offset, offset + bytes) of a file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

struct Section {
  Elf64_Shdr header = {};
  // Nothing where sh_name does not lead to a text within the table of names.
  std::optional<std::string> name;
};

// Bounds on one file. Without them, the file's size alone bounds how much of it is read.
struct SectionLimits {
  uint64_t most_sections = UINT64_MAX;
  uint64_t most_name_bytes = UINT64_MAX;  // The size of the table of names
};

// Returns the sections of a file of `size` bytes in their order, the empty one at the beginning
// included; none for a file that says that it has none. INVALID_ARGUMENT when the table or the
// names lie outside the file or go beyond a bound, and for names that overlap more than those of
// real files do. The result is in proportion to both tables.
absl::StatusOr<std::vector<Section>> ReadSections(const Elf64_Ehdr& header, const ReadAt& read,
                                                  uint64_t size, const SectionLimits& limits);

// Returns where the section's bytes lie: nowhere for one that has none in the file (SHT_NULL,
// SHT_NOBITS). Nothing when not all of them lie within a file of `size` bytes.
std::optional<FileRange> ContentsOf(const Section& section, uint64_t size);

// Returns the bytes themselves of a file in memory; nothing when not all of them lie within it.
std::optional<std::string_view> ContentsOf(const Section& section, std::string_view file);

// Returns the text at `at` of a table of strings, without its NUL. Nothing when it has no NUL
// within the table or is longer than `most` bytes.
std::optional<std::string_view> TextAt(std::string_view strings, uint64_t at, size_t most);

// Returns element `index` of a table of such structures; nothing when the table has fewer.
template <typename T>
std::optional<T> ElementAt(std::string_view table, uint64_t index) {
  if (index >= table.size() / sizeof(T)) return std::nullopt;
  return LoadAt<T>(table, index * sizeof(T));
}

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_SECTIONS_H_
