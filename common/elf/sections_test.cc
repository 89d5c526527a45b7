#include "common/elf/sections.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/elf/elf_bytes.h"
#include "common/elf/elf_header.h"
#include "common/plain_file.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

using Sections = std::vector<Section>;

const std::string kFile = SectionsBytes({{.name = ".text", .contents = "code"},
                                         {.name = ".bss", .type = SHT_NOBITS, .size = 1 << 20},
                                         {.name = ".data", .contents = "12345"}});
enum SectionNumber { kEmpty, kText, kBss, kData, kNames };

absl::StatusOr<Sections> SectionsOf(const std::string& file, const SectionLimits& limits = {}) {
  const ReadAt read = InMemory(file);
  const auto header = ReadHeader(read);
  if (!header.has_value()) return absl::NotFoundError("no header");
  return ReadSections(*header, read, file.size(), limits);
}

std::string Edited(std::string file, const std::function<void(Elf64_Ehdr*)>& edit) {
  auto header = LoadAt<Elf64_Ehdr>(file, 0);
  edit(&header);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

std::string Edited(std::string file, size_t section, const std::function<void(Elf64_Shdr*)>& edit) {
  const size_t at = LoadAt<Elf64_Ehdr>(file, 0).e_shoff + section * sizeof(Elf64_Shdr);
  auto header = LoadAt<Elf64_Shdr>(file, at);
  edit(&header);
  std::memcpy(file.data() + at, &header, sizeof(header));
  return file;
}

TEST(SectionsTest, HaveNamesAndContents) {
  const auto sections = SectionsOf(kFile);
  ASSERT_TRUE(sections.ok()) << sections.status();
  ASSERT_EQ(sections->size(), 5u);
  EXPECT_EQ((*sections)[kEmpty].name, "");
  EXPECT_EQ((*sections)[kText].name, ".text");
  EXPECT_EQ((*sections)[kNames].name, ".shstrtab");
  EXPECT_EQ(ContentsOf((*sections)[kText], kFile), "code");
  EXPECT_EQ(ContentsOf((*sections)[kData], kFile), "12345");
  EXPECT_EQ(ContentsOf((*sections)[kBss], kFile), "");
  EXPECT_EQ((*sections)[kBss].header.sh_size, 1u << 20);
}

TEST(SectionsTest, AnOpenedFileIsReadAsOneInMemory) {
  const std::string path = std::filesystem::path(testing::TempDir()) / "sections";
  std::ofstream(path, std::ios::binary) << kFile;
  const auto file = PlainFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const ReadAt read = [&](uint64_t offset, uint64_t bytes) { return file->Read(offset, bytes); };
  const auto header = ReadHeader(read);
  ASSERT_TRUE(header.has_value());
  EXPECT_TRUE(Is64Bit(*header));
  const auto sections = ReadSections(*header, read, file->size(), {});
  ASSERT_TRUE(sections.ok()) << sections.status();
  ASSERT_EQ(sections->size(), 5u);
  EXPECT_EQ((*sections)[kData].name, ".data");
  const auto range = ContentsOf((*sections)[kData], file->size());
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(read(range->offset, range->bytes), "12345");
}

TEST(SectionsTest, AFileMaySayThatItHasNone) {
  const auto none = SectionsOf(Edited(kFile, [](Elf64_Ehdr* h) { h->e_shoff = 0; }));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
}

TEST(SectionsTest, LargeNumbersAreInTheFirst) {
  std::string file = Edited(kFile, [](Elf64_Ehdr* h) {
    h->e_shnum = 0;
    h->e_shstrndx = SHN_XINDEX;
  });
  file = Edited(file, kEmpty, [](Elf64_Shdr* s) {
    s->sh_size = 5;
    s->sh_link = kNames;
  });
  const auto sections = SectionsOf(file);
  ASSERT_TRUE(sections.ok()) << sections.status();
  ASSERT_EQ(sections->size(), 5u);
  EXPECT_EQ((*sections)[kText].name, ".text");
}

TEST(SectionsTest, NoTableIsBelieved) {
  const std::vector<std::function<void(Elf64_Ehdr*)>> edits = {
      [](Elf64_Ehdr* h) { h->e_shoff = ~uint64_t{0}; },
      [](Elf64_Ehdr* h) { h->e_shoff = ~uint64_t{0} - 100; },
      [](Elf64_Ehdr* h) { h->e_shoff += 1; },
      [](Elf64_Ehdr* h) { h->e_shnum += 1; },
      [](Elf64_Ehdr* h) { h->e_shentsize = 63; },
  };
  for (const auto& edit : edits) {
    EXPECT_EQ(SectionsOf(Edited(kFile, edit)).status().message(),
              "its table of sections is outside of it, or too large");
  }
  const std::string without_names = Edited(kFile, [](Elf64_Ehdr* h) { h->e_shstrndx = 5; });
  EXPECT_EQ(SectionsOf(without_names).status().message(), "its sections have no names");
  for (const uint64_t size : {~uint64_t{0}, uint64_t{1} << 40, uint64_t{kFile.size()}}) {
    const std::string far = Edited(kFile, kNames, [&](Elf64_Shdr* s) { s->sh_size = size; });
    EXPECT_EQ(SectionsOf(far).status().message(), "its sections have no names");
  }
}

TEST(SectionsTest, LimitsHold) {
  EXPECT_TRUE(SectionsOf(kFile, {.most_sections = 5}).ok());
  EXPECT_FALSE(SectionsOf(kFile, {.most_sections = 4}).ok());
  const uint64_t names = ContentsOf((*SectionsOf(kFile))[kNames], kFile.size())->bytes;
  EXPECT_TRUE(SectionsOf(kFile, {.most_name_bytes = names}).ok());
  EXPECT_FALSE(SectionsOf(kFile, {.most_name_bytes = names - 1}).ok());
}

TEST(SectionsTest, NamesOutsideOfTheirTableAreNone) {
  for (const uint32_t at : {uint32_t{100}, ~uint32_t{0}}) {
    const auto sections = SectionsOf(Edited(kFile, kText, [&](Elf64_Shdr* s) { s->sh_name = at; }));
    ASSERT_TRUE(sections.ok()) << sections.status();
    EXPECT_FALSE((*sections)[kText].name.has_value());
    EXPECT_EQ((*sections)[kData].name, ".data");
  }
  // The last name has lost its NUL.
  const auto cut = SectionsOf(Edited(kFile, kNames, [](Elf64_Shdr* s) { --s->sh_size; }));
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_FALSE((*cut)[kNames].name.has_value());
}

TEST(SectionsTest, NamesThatOverlapMoreThanRealOnesAreRefused) {
  std::vector<SectionText> many(1000);
  many[0].name = std::string(10'000, 'n');
  std::string file = SectionsBytes(many);
  EXPECT_TRUE(SectionsOf(file).ok());
  for (size_t i = 1; i <= many.size(); ++i) {
    file = Edited(file, i, [](Elf64_Shdr* s) { s->sh_name = 1; });
  }
  EXPECT_FALSE(SectionsOf(file).ok());
}

TEST(SectionsTest, ContentsLieWithinTheFile) {
  Section within;
  within.header.sh_type = SHT_PROGBITS;
  within.header.sh_offset = 10;
  within.header.sh_size = 20;
  EXPECT_EQ(ContentsOf(within, uint64_t{30}), (FileRange{10, 20}));
  EXPECT_EQ(ContentsOf(within, uint64_t{29}), std::nullopt);
  Section wraps = within;
  wraps.header.sh_size = ~uint64_t{0} - 5;
  EXPECT_EQ(ContentsOf(wraps, uint64_t{30}), std::nullopt);
  EXPECT_EQ(ContentsOf(wraps, std::string_view("file")), std::nullopt);
}

TEST(SectionsTest, TextsEndWithinTheirTable) {
  const std::string_view strings("\0one\0two", 8);
  EXPECT_EQ(TextAt(strings, 0, 3), "");
  EXPECT_EQ(TextAt(strings, 1, 3), "one");
  EXPECT_EQ(TextAt(strings, 3, SIZE_MAX), "e");
  EXPECT_EQ(TextAt(strings, 1, 2), std::nullopt);
  EXPECT_EQ(TextAt(strings, 5, 3), std::nullopt);
  EXPECT_EQ(TextAt(strings, 8, 3), std::nullopt);
  EXPECT_EQ(TextAt(strings, ~uint64_t{0}, 3), std::nullopt);
}

TEST(SectionsTest, ElementsLieWithinTheirTable) {
  const std::string table("\1\0\2\0\3", 5);
  EXPECT_EQ(ElementAt<uint16_t>(table, 0), 1);
  EXPECT_EQ(ElementAt<uint16_t>(table, 1), 2);
  EXPECT_EQ(ElementAt<uint16_t>(table, 2), std::nullopt);
  EXPECT_EQ(ElementAt<uint16_t>(table, ~uint64_t{0}), std::nullopt);
}

TEST(SectionsTest, TruncatedAndChangedFilesDoNoHarm) {
  for (size_t bytes = 0; bytes < kFile.size(); ++bytes) {
    EXPECT_FALSE(SectionsOf(kFile.substr(0, bytes)).ok()) << bytes;
  }
  std::mt19937 random(1);
  size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = kFile;
    for (size_t j = 0; j < 1 + random() % 8; ++j) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const auto sections = SectionsOf(changed);
    if (!sections.ok()) ++refused;
    for (const Section& section : sections.value_or(Sections())) {
      const auto range = ContentsOf(section, changed.size());
      if (!range.has_value()) continue;
      EXPECT_LE(range->offset, changed.size());
      EXPECT_LE(range->bytes, changed.size() - range->offset);
      EXPECT_EQ(ContentsOf(section, changed)->size(), range->bytes);
    }
  }
  // Some of the changes matter, and some do not.
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, 20'000u);
}

}  // namespace
}  // namespace warpline::elf
