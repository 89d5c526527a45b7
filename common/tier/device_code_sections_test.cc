#include "common/tier/device_code_sections.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/elf/elf_bytes.h"
#include "common/elf/elf_header.h"
#include "common/elf/sections.h"
#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

using elf::FileRange;
using elf::SectionsBytes;

std::optional<std::vector<FileRange>> SectionsOf(const std::string& file) {
  return DeviceCodeSections(elf::InMemory(file), file.size());
}

TEST(DeviceCodeSectionsTest, FindsDeviceCodeByName) {
  const std::string file =
      SectionsBytes({{".text", "code"}, {".nv_fatbin", "12345"}, {"__nv_relfatbin", "6"}});
  const auto found = SectionsOf(file);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(file.substr((*found)[0].offset, (*found)[0].bytes), "12345");
  EXPECT_EQ(file.substr((*found)[1].offset, (*found)[1].bytes), "6");
}

TEST(DeviceCodeSectionsTest, AProgramWithoutHasNone) {
  EXPECT_EQ(SectionsOf(SectionsBytes({{".text", "code"}})), std::vector<FileRange>());
}

TEST(DeviceCodeSectionsTest, OtherFilesDoNotListSections) {
  EXPECT_FALSE(SectionsOf("").has_value());
  EXPECT_FALSE(SectionsOf("#!/bin/sh\n").has_value());
  std::string narrow = SectionsBytes({{".nv_fatbin", "x"}});
  narrow[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(SectionsOf(narrow).has_value());
  std::string stripped = SectionsBytes({{".nv_fatbin", "x"}});
  std::memset(stripped.data() + offsetof(Elf64_Ehdr, e_shnum), 0, sizeof(Elf64_Half));
  EXPECT_FALSE(SectionsOf(stripped).has_value());
}

TEST(DeviceCodeSectionsTest, SectionsEndWhereTheFileDoes) {
  std::string file = SectionsBytes({{".nv_fatbin", "12345"}});
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof(head));
  Elf64_Shdr section;
  std::memcpy(&section, file.data() + head.e_shoff + sizeof(section), sizeof(section));
  section.sh_size = ~uint64_t{0};
  std::memcpy(file.data() + head.e_shoff + sizeof(section), &section, sizeof(section));
  const auto found = SectionsOf(file);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].offset + (*found)[0].bytes, file.size());
}

TEST(DeviceCodeSectionsTest, TruncatedAndChangedFilesDoNoHarm) {
  const std::string whole = SectionsBytes({{".text", "code"}, {".nv_fatbin", "12345"}});
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
