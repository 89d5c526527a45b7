#include "common/elf/dynamic_section.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/elf/elf_bytes.h"
#include "common/elf/elf_header.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

absl::StatusOr<DynamicSection> SectionOf(const std::string& file) {
  return ReadDynamicSection(InMemory(file));
}

const std::string kProgram = ElfBytes({{DT_NEEDED, "libone.so"},
                                       {DT_SONAME, "self.so"},
                                       {DT_AUDIT, "a.so:b.so"},
                                       {DT_NEEDED, "libtwo.so.2"},
                                       {DT_AUXILIARY, "libaux.so"},
                                       {DT_FILTER, "libfilter.so"},
                                       {DT_DEPAUDIT, "c.so"},
                                       {DT_RUNPATH, "$ORIGIN/lib:/opt/lib"}},
                                      DF_1_NODEFLIB);

TEST(DynamicSectionTest, HasWhatTheLoaderLoads) {
  const auto section = SectionOf(kProgram);
  ASSERT_TRUE(section.ok()) << section.status();
  EXPECT_EQ(section->libraries, (std::vector<std::string>{"libone.so", "libtwo.so.2", "libaux.so",
                                                          "libfilter.so", "a.so", "b.so", "c.so"}));
  EXPECT_EQ(section->soname, "self.so");
  EXPECT_EQ(section->runpath, "$ORIGIN/lib:/opt/lib");
  EXPECT_TRUE(section->has_runpath);
  EXPECT_TRUE(section->no_default_folders);
}

TEST(DynamicSectionTest, ARunpathReplacesAnRpath) {
  EXPECT_EQ(SectionOf(ElfBytes({{DT_RPATH, "/a"}}))->rpath, "/a");
  EXPECT_EQ(SectionOf(ElfBytes({{DT_RPATH, "/a"}, {DT_RUNPATH, "/b"}}))->rpath, "");
  EXPECT_EQ(SectionOf(ElfBytes({{DT_RPATH, "/a"}, {DT_RUNPATH, ""}}))->rpath, "");
}

TEST(DynamicSectionTest, AStaticProgramHasNone) {
  std::string file = ElfBytes({{DT_NEEDED, "libx.so"}});
  file[offsetof(Elf64_Ehdr, e_phnum)] = 1;
  const auto section = SectionOf(file);
  ASSERT_TRUE(section.ok()) << section.status();
  EXPECT_TRUE(section->libraries.empty());
}

TEST(DynamicSectionTest, OtherFilesAreRefused) {
  std::string narrow = kProgram, foreign = kProgram;
  narrow[EI_CLASS] = ELFCLASS32;
  foreign[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_AARCH64);
  for (const std::string& file :
       {std::string(), std::string("#!/bin/sh\n"), kProgram.substr(0, 63), narrow, foreign}) {
    EXPECT_EQ(SectionOf(file).status().message(), "it is no ELF file for 64-bit x86");
  }
}

TEST(DynamicSectionTest, WhatGoesBeyondABoundIsRefused) {
  EXPECT_TRUE(SectionOf(ElfBytes({{DT_NEEDED, std::string(kMostNameBytes, 'x')}})).ok());
  EXPECT_FALSE(SectionOf(ElfBytes({{DT_NEEDED, std::string(kMostNameBytes + 1, 'x')}})).ok());
  EXPECT_FALSE(SectionOf(ElfBytes({{DT_RUNPATH, std::string(kMostListBytes + 1, 'x')}})).ok());
  EXPECT_FALSE(
      SectionOf(ElfBytes(std::vector<DynamicText>(kMostNeeded + 1, {DT_NEEDED, "x"}))).ok());
  EXPECT_FALSE(
      SectionOf(ElfBytes(std::vector<DynamicText>(kMostDynamicEntries, {DT_SONAME, "x"}))).ok());
}

TEST(DynamicSectionTest, TruncatedAndChangedFilesDoNoHarm) {
  ASSERT_TRUE(SectionOf(kProgram).ok());
  for (size_t bytes = 0; bytes < kProgram.size(); ++bytes) {
    (void)SectionOf(kProgram.substr(0, bytes));
  }
  std::mt19937 random(1);
  size_t refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string changed = kProgram;
    for (size_t j = 0; j < 1 + random() % 8; ++j) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) changed.resize(random() % changed.size());
    uint64_t readings = 0;
    const ReadAt read = InMemory(changed);
    const auto section = ReadDynamicSection([&](uint64_t offset, uint64_t bytes) {
      ++readings;
      return read(offset, bytes);
    });
    // Each entry names one text at most, and each text is read in a few pieces.
    EXPECT_LT(readings, 2 * kMostDynamicEntries);
    if (!section.ok()) ++refused;
  }
  // Some of the changes matter, and some do not.
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, 10'000u);
}

}  // namespace
}  // namespace warpline::elf
