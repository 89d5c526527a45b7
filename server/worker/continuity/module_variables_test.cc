#include "server/worker/continuity/module_variables.h"

#include <elf.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/elf/elf_bytes.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

constexpr char kHead[] = ".version 8.0\n.target sm_75\n.address_size 64\n";
constexpr char kKernel[] = ".visible .entry k() { .reg .b64 r; mov.u64 r, counter; ret; }\n";

ModuleVariables Of(const std::string& body) { return WritableVariables(kHead + body, 75); }
bool Has(const std::string& body) { return Of(body).any(); }

TEST(ModuleVariablesTest, KernelsAloneHaveNone) {
  EXPECT_FALSE(Has(kKernel));
  EXPECT_FALSE(Has("// .global .u32 comment;\n" + std::string(kKernel)));
}

TEST(ModuleVariablesTest, GlobalsCountConstantsDoNot) {
  EXPECT_TRUE(Has(".visible .global .align 4 .u32 counter;\n" + std::string(kKernel)));
  EXPECT_TRUE(Has(std::string(kKernel) + ".global .align 4 .b8 table[8] = {1, 2, 3};\n"));
  EXPECT_FALSE(Has(".const .align 4 .b8 table[8];\n" + std::string(kKernel)));
}

TEST(ModuleVariablesTest, StringsOfTheCompilerDoNotCount) {
  EXPECT_FALSE(Has(".global .align 1 .b8 $str[4] = {104, 105, 10};\n" + std::string(kKernel)));
  EXPECT_FALSE(Has(".global .align 1 .b8 __unnamed_1[3] = {1, 2, 0};\n" + std::string(kKernel)));
  EXPECT_TRUE(Has(".global .align 1 .b8 $str[2] = {1, 0};\n.global .u32 x;\n"));
}

TEST(ModuleVariablesTest, VariablesAreNamed) {
  const ModuleVariables two =
      Of(".visible .global .align 4 .u32 counter;\n" + std::string(kKernel) +
         ".global .align 4 .b8 table[8] = {1, 2};\n");
  EXPECT_EQ(two.names, (std::vector<std::string>{"counter", "table"}));
  EXPECT_TRUE(two.complete);
  EXPECT_FALSE(Of(".global .u32 a, b;\n").complete);
  EXPECT_FALSE(Of(".global .u32 " + std::string(kMaxVariableName + 1, 'n') + ";\n").complete);
}

TEST(ModuleVariablesTest, TheirBytesAreSummed) {
  EXPECT_EQ(Of(kKernel).bytes, 0u);
  EXPECT_EQ(
      Of(".global .u32 a, b;\n" + std::string(kKernel) + ".global .b8 big[17179869184];\n").bytes,
      (16ull << 30) + 8);
  // What is no image for us may be text for the device.
  EXPECT_EQ(WritableVariables("nonsense .global .u32 a[100];", 90).bytes, 400u);
}

TEST(ModuleVariablesTest, KernelsThatAllocateAreFound) {
  EXPECT_TRUE(
      Of(".extern .func (.param .b64 r) malloc\n(\n.param .b64 p\n)\n;\n" + std::string(kKernel))
          .allocates);
  EXPECT_FALSE(Of(".extern .func (.param .b64 r) mallocate (.param .b64 p);\n").allocates);
  EXPECT_FALSE(Of(kKernel).allocates);
}

TEST(ModuleVariablesTest, WhatCannotBeReadIsIncomplete) {
  EXPECT_FALSE(WritableVariables("nonsense", 90).complete);
  EXPECT_FALSE(WritableVariables("\x7f"
                                 "ELF",
                                 90)
                   .complete);
  std::string header(
      "\x7f"
      "ELF");
  header.resize(64, '\xff');
  EXPECT_FALSE(WritableVariables(header, 255).complete);
}

// A cubin whose tables of symbols are all the same `symbols`.
std::string CubinWith(size_t tables, const std::string& symbols, const std::string& strings) {
  std::vector<elf::SectionText> sections = {
      {.name = ".nv.global", .type = SHT_NOBITS, .size = 8},
      {.name = ".strtab", .contents = strings, .type = SHT_STRTAB},
      {.name = ".symtab", .contents = symbols, .type = SHT_SYMTAB, .link = 2}};
  sections.resize(2 + tables, {.name = ".symtab", .type = SHT_SYMTAB, .link = 2});
  std::string file = elf::SectionsBytes(sections);
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  header.e_flags = 90;
  std::memcpy(file.data(), &header, sizeof(header));
  char* const table = file.data() + header.e_shoff;
  for (size_t i = 1; i < tables; ++i) {
    std::memcpy(table + (3 + i) * sizeof(Elf64_Shdr), table + 3 * sizeof(Elf64_Shdr),
                sizeof(Elf64_Shdr));
  }
  return file;
}

// Symbols of variables, which have their names at these places.
std::string Variables(const std::vector<uint32_t>& names) {
  std::string symbols;
  for (const uint32_t name : names) {
    Elf64_Sym symbol = {};
    symbol.st_name = name;
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbol.st_shndx = 1;
    symbols.append(reinterpret_cast<const char*>(&symbol), sizeof(symbol));
  }
  return symbols;
}

TEST(ModuleVariablesTest, VariablesOfACubinAreNamed) {
  const std::string strings("\0counter\0$str\0table", 19);
  const ModuleVariables two =
      WritableVariables(CubinWith(1, Variables({1, 9, 14}), strings + '\0'), 90);
  EXPECT_EQ(two.names, (std::vector<std::string>{"counter", "table"}));
  EXPECT_TRUE(two.complete);
  EXPECT_EQ(two.bytes, 8u);
  // Without its end a name is none.
  EXPECT_FALSE(WritableVariables(CubinWith(1, Variables({1, 14}), strings), 90).complete);
  EXPECT_FALSE(WritableVariables(CubinWith(1, Variables({1, 99}), strings), 90).complete);
  EXPECT_FALSE(WritableVariables(CubinWith(1, "", strings), 90).complete);
}

TEST(ModuleVariablesTest, TruncatedAndChangedCubinsDoNoHarm) {
  const std::string whole = CubinWith(2, Variables({1, 9}), std::string("\0counter\0table", 15));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(WritableVariables(whole.substr(0, bytes), 90).complete) << bytes;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = whole;
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_LE(WritableVariables(changed, 90).names.size(), 4u);
  }
}

TEST(ModuleVariablesTest, TablesThatOverlapAreNotReadAgainAndAgain) {
  const std::string symbols = Variables(std::vector<uint32_t>(1 << 12, 1));
  EXPECT_TRUE(WritableVariables(CubinWith(1, symbols, std::string("\0name", 6)), 90).complete);
  EXPECT_FALSE(WritableVariables(CubinWith(2000, symbols, std::string("\0name", 6)), 90).complete);
}

TEST(ModuleVariablesTest, NamesThatOverlapAreNotReadAgainAndAgain) {
  const std::string symbols = Variables(std::vector<uint32_t>(1 << 12, 0));
  const std::string name = std::string(kMaxVariableName, 'n') + std::string(8, '\0');
  EXPECT_FALSE(WritableVariables(CubinWith(1, symbols, name), 90).complete);
}

// Looked over anew for each comment, this would take hours.
TEST(ModuleVariablesTest, BlanksBeforeCommentsAreReadOnce) {
  std::string ptx = kHead + std::string(kKernel) + std::string(4 << 20, ' ') + ".global .u32 ";
  for (int i = 0; i < 1 << 20; ++i) ptx += "//\n";
  const ModuleVariables variables = WritableVariables(ptx + "last;\n", 75);
  EXPECT_EQ(variables.names, (std::vector<std::string>{"last"}));
}

}  // namespace
}  // namespace warpline::worker
