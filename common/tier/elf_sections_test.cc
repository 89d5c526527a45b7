#include "common/tier/elf_sections.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

elf::ReadAt Of(const std::string& file) {
  return [&file](uint64_t offset, uint64_t bytes) {
    return offset > file.size() ? std::string() : file.substr(offset, bytes);
  };
}

std::optional<std::vector<FileRange>> SectionsOf(const std::string& file) {
  return DeviceCodeSections(Of(file), file.size());
}

struct Section {
  std::string name;
  std::string contents;
};

std::string Elf(const std::vector<Section>& sections) {
  Elf64_Ehdr head = {};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<Elf64_Half>(sections.size() + 1);
  std::string contents, names(1, '\0'), table;
  std::vector<Elf64_Shdr> headers;
  for (const Section& section : sections) {
    Elf64_Shdr header = {};
    header.sh_type = SHT_PROGBITS;
    header.sh_name = static_cast<Elf64_Word>(names.size());
    names += section.name + '\0';
    header.sh_offset = sizeof(head) + contents.size();
    header.sh_size = section.contents.size();
    contents += section.contents;
    headers.push_back(header);
  }
  Elf64_Shdr strings = {};
  strings.sh_type = SHT_STRTAB;
  strings.sh_offset = sizeof(head) + contents.size();
  strings.sh_size = names.size();
  contents += names;
  headers.push_back(strings);
  head.e_shstrndx = static_cast<Elf64_Half>(sections.size());
  head.e_shoff = sizeof(head) + contents.size();
  table.assign(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof(headers[0]));
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + contents + table;
}

TEST(ElfSectionsTest, FindsDeviceCodeByName) {
  const std::string file =
      Elf({{".text", "code"}, {".nv_fatbin", "12345"}, {"__nv_relfatbin", "6"}});
  const auto found = SectionsOf(file);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(file.substr((*found)[0].offset, (*found)[0].bytes), "12345");
  EXPECT_EQ(file.substr((*found)[1].offset, (*found)[1].bytes), "6");
}

TEST(ElfSectionsTest, AProgramWithoutHasNone) {
  EXPECT_EQ(SectionsOf(Elf({{".text", "code"}})), std::vector<FileRange>());
}

TEST(ElfSectionsTest, OtherFilesDoNotListSections) {
  EXPECT_FALSE(SectionsOf("").has_value());
  EXPECT_FALSE(SectionsOf("#!/bin/sh\n").has_value());
  std::string narrow = Elf({{".nv_fatbin", "x"}});
  narrow[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(SectionsOf(narrow).has_value());
  std::string stripped = Elf({{".nv_fatbin", "x"}});
  std::memset(stripped.data() + offsetof(Elf64_Ehdr, e_shnum), 0, sizeof(Elf64_Half));
  EXPECT_FALSE(SectionsOf(stripped).has_value());
}

TEST(ElfSectionsTest, SectionsEndWhereTheFileDoes) {
  std::string file = Elf({{".nv_fatbin", "12345"}});
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof(head));
  Elf64_Shdr section;
  std::memcpy(&section, file.data() + head.e_shoff, sizeof(section));
  section.sh_size = ~uint64_t{0};
  std::memcpy(file.data() + head.e_shoff, &section, sizeof(section));
  const auto found = SectionsOf(file);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].offset + (*found)[0].bytes, file.size());
}

TEST(ElfSectionsTest, TruncatedAndChangedFilesDoNoHarm) {
  const std::string whole = Elf({{".text", "code"}, {".nv_fatbin", "12345"}});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(SectionsOf(whole.substr(0, bytes)).has_value()) << bytes;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = whole;
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    const auto found = SectionsOf(changed);
    for (const FileRange& range : found.value_or(std::vector<FileRange>())) {
      EXPECT_LE(range.offset, changed.size());
      EXPECT_LE(range.bytes, changed.size() - range.offset);
    }
  }
}

}  // namespace
}  // namespace warpline::tier
