#include "server/worker/continuity/module_variables.h"

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

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
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_flags = 90;
  header.e_shoff = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(tables + 1);
  const uint64_t strings_at = sizeof(header) + (tables + 1) * sizeof(Elf64_Shdr);
  Elf64_Shdr section = {};
  section.sh_type = SHT_STRTAB;
  section.sh_offset = strings_at;
  section.sh_size = strings.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  file.append(reinterpret_cast<const char*>(&section), sizeof(section));
  section.sh_type = SHT_SYMTAB;
  section.sh_offset = strings_at + strings.size();
  section.sh_size = symbols.size();
  section.sh_link = 0;
  for (size_t i = 0; i < tables; ++i) {
    file.append(reinterpret_cast<const char*>(&section), sizeof(section));
  }
  return file + strings + symbols;
}

TEST(ModuleVariablesTest, TablesThatOverlapAreNotReadAgainAndAgain) {
  const std::string symbols(sizeof(Elf64_Sym) << 12, '\0');
  EXPECT_TRUE(WritableVariables(CubinWith(1, symbols, std::string(8, '\0')), 90).complete);
  EXPECT_FALSE(WritableVariables(CubinWith(2000, symbols, std::string(8, '\0')), 90).complete);
}

TEST(ModuleVariablesTest, NamesThatOverlapAreNotReadAgainAndAgain) {
  const std::string symbols(sizeof(Elf64_Sym) << 12, '\0');
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
