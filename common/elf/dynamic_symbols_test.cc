#include "common/elf/dynamic_symbols.h"

#include <elf.h>

#include <cstring>
#include <random>
#include <string>

#include "common/plain_file.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

absl::StatusOr<std::vector<DynamicSymbol>> ReadAll(const std::string& file,
                                                   std::string_view prefix) {
  return ReadDynamicSymbols(
      [&](uint64_t offset, uint64_t bytes) {
        return offset >= file.size() ? std::string() : file.substr(offset, bytes);
      },
      file.size(), prefix);
}

template <typename T>
void Append(const T& value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A file with the symbols "one", which it takes, and "two" and "other", which it gives, the former
// as a weak one.
std::string SmallFile() {
  const std::string names("\0one\0two\0other\0", 15);
  std::string symbols(sizeof(Elf64_Sym), '\0');
  const auto add = [&](uint32_t name, uint16_t section, uint8_t bind) {
    Elf64_Sym symbol = {};
    symbol.st_name = name;
    symbol.st_shndx = section;
    symbol.st_info = ELF64_ST_INFO(bind, STT_FUNC);
    Append(symbol, &symbols);
  };
  add(1, SHN_UNDEF, STB_GLOBAL);
  add(5, 1, STB_WEAK);
  add(9, 1, STB_GLOBAL);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof(header) + symbols.size() + names.size();
  std::string file;
  Append(header, &file);
  file += symbols + names;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_DYNSYM;
  sections[1].sh_link = 2;
  sections[1].sh_offset = sizeof(header);
  sections[1].sh_size = symbols.size();
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof(header) + symbols.size();
  sections[2].sh_size = names.size();
  Append(sections, &file);
  return file;
}

TEST(DynamicSymbolsTest, SymbolsHaveTheirKinds) {
  const auto all = ReadAll(SmallFile(), "");
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].name, "one");
  EXPECT_FALSE((*all)[0].defined);
  EXPECT_EQ((*all)[1].name, "two");
  EXPECT_TRUE((*all)[1].defined);
  EXPECT_TRUE((*all)[1].weak);
  EXPECT_FALSE((*all)[2].weak);
  const auto some = ReadAll(SmallFile(), "o");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->size(), 2u);
}

TEST(DynamicSymbolsTest, ThisProgramTakesSymbolsFromTheCLibrary) {
  const auto file = PlainFile::Open("/proc/self/exe");
  ASSERT_TRUE(file.ok());
  const auto symbols =
      ReadDynamicSymbols([&](uint64_t offset, uint64_t bytes) { return file->Read(offset, bytes); },
                         file->size(), "__libc_start_main");
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  ASSERT_EQ(symbols->size(), 1u);
  EXPECT_FALSE((*symbols)[0].defined);
}

TEST(DynamicSymbolsTest, HostileFilesAreRefusedOrRead) {
  EXPECT_FALSE(ReadAll("", "").ok());
  EXPECT_FALSE(ReadAll("#!/bin/sh\n", "").ok());
  const std::string good = SmallFile();
  for (size_t bytes = 0; bytes < good.size(); ++bytes) (void)ReadAll(good.substr(0, bytes), "");
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (int changes = 0; changes < 3; ++changes) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const auto read = ReadAll(bad, "");
    if (read.ok()) {
      EXPECT_LE(read->size(), good.size() / sizeof(Elf64_Sym));
    }
  }
}

}  // namespace
}  // namespace warpline::elf
