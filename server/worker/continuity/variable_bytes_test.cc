#include "server/worker/continuity/variable_bytes.h"

#include <elf.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/elf/elf_bytes.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

// A cubin with sections of these names and sizes, without contents.
std::string Cubin(const std::vector<std::pair<std::string, uint64_t>>& sections) {
  std::vector<elf::SectionText> texts;
  for (const auto& [name, size] : sections) {
    texts.push_back({.name = name, .type = SHT_NOBITS, .size = size});
  }
  return elf::SectionsBytes(texts);
}

TEST(VariableBytesTest, GlobalSectionsOfACubinAreSummed) {
  EXPECT_EQ(CubinVariableBytes(Cubin({{".text.k", 100}, {".nv.constant3", 8}})), 0u);
  EXPECT_EQ(CubinVariableBytes(
                Cubin({{".nv.global", 16ull << 30}, {".nv.global.init", 12}, {".text.k", 100}})),
            (16ull << 30) + 12);
  EXPECT_EQ(CubinVariableBytes(Cubin({{".nv.global", ~uint64_t{0}}, {".nv.global", 4}})),
            kTooManyBytes);
}

TEST(VariableBytesTest, CubinsThatCannotBeReadHaveTooMany) {
  const std::string cubin = Cubin({{".nv.global", 100}});
  for (size_t size = 1; size < cubin.size(); size += 7) {
    EXPECT_EQ(CubinVariableBytes(cubin.substr(0, size)), kTooManyBytes) << size;
  }
  std::string other = cubin;
  Elf64_Ehdr elf;
  std::memcpy(&elf, other.data(), sizeof(elf));
  elf.e_shstrndx = 900;
  std::memcpy(other.data(), &elf, sizeof(elf));
  EXPECT_EQ(CubinVariableBytes(other), kTooManyBytes);
  // A section without a name could be any.
  other = cubin;
  std::memcpy(&elf, other.data(), sizeof(elf));
  std::memset(other.data() + elf.e_shoff + sizeof(Elf64_Shdr), 0xff, sizeof(Elf64_Word));
  EXPECT_EQ(CubinVariableBytes(other), kTooManyBytes);
}

TEST(VariableBytesTest, ACubinWithoutSectionsHasNone) {
  std::string cubin(ELFMAG);
  cubin.resize(sizeof(Elf64_Ehdr));
  EXPECT_EQ(CubinVariableBytes(cubin), 0u);
}

TEST(VariableBytesTest, ManySectionsAreCountedInTheFirst) {
  std::string cubin = Cubin({{".nv.global", 100}});
  Elf64_Ehdr elf;
  std::memcpy(&elf, cubin.data(), sizeof(elf));
  Elf64_Shdr first = {};
  first.sh_size = elf.e_shnum;
  first.sh_link = elf.e_shstrndx;
  elf.e_shnum = 0;
  elf.e_shstrndx = SHN_XINDEX;
  std::memcpy(cubin.data(), &elf, sizeof(elf));
  std::memcpy(cubin.data() + elf.e_shoff, &first, sizeof(first));
  EXPECT_EQ(CubinVariableBytes(cubin), 100u);
}

TEST(VariableBytesTest, DeclarationsOfPtxAreSummed) {
  EXPECT_EQ(PtxVariableBytes(".version 8.0\n.target sm_90\n.address_size 64\n"), 0u);
  EXPECT_EQ(PtxVariableBytes(".visible .global .align 4 .u32 a;"), 4u);
  EXPECT_EQ(PtxVariableBytes(".global .align 16 .b8 big[17179869184];"), 16ull << 30);
  EXPECT_EQ(PtxVariableBytes(".global .v4 .f32 a[0x10], b;"), 16u * 16 + 16);
  EXPECT_EQ(PtxVariableBytes(".global .f16x2 a[3][5];"), 60u);
  EXPECT_EQ(PtxVariableBytes(".global .attribute(.managed) .align 8 .b64 m[2U];"), 16u);
  EXPECT_EQ(PtxVariableBytes(".global .u32 a[] = {1, 2, 3}, b[4] = {0};"), 12u + 16);
  EXPECT_EQ(PtxVariableBytes(".global .u64 a[2] = {{1}, {2}}; .global .u8 c;"), 17u);
}

TEST(VariableBytesTest, NothingHidesADeclaration) {
  EXPECT_EQ(PtxVariableBytes("// .global .u32 a[9];\n/* .global .u32 b; */ .global .u32 c;"), 4u);
  EXPECT_EQ(PtxVariableBytes(".visible.global/**/.align/**/8.b8/**/x[/**/1000/*]*/];"), 1000u);
  EXPECT_EQ(PtxVariableBytes(".global .f64 half = 0.5, more[3];"), 32u);
  EXPECT_EQ(PtxVariableBytes(".entry k() { .global .u32 inside[100]; ret; }"), 400u);
  EXPECT_EQ(PtxVariableBytes(".global .b8 x[1024*1024];"), kTooManyBytes);
  EXPECT_EQ(PtxVariableBytes(".global .b8 x[(1<<30)], y;"), kTooManyBytes);
  EXPECT_EQ(PtxVariableBytes(".global .b8 x[010];"), kTooManyBytes);
  EXPECT_EQ(PtxVariableBytes(".global .b64 x[0xffffffffffffffff];"), kTooManyBytes);
  EXPECT_EQ(PtxVariableBytes(".global .b8 x[4294967296][4294967296];"), kTooManyBytes);
}

TEST(VariableBytesTest, OtherUsesOfTheWordDeclareNothing) {
  EXPECT_EQ(PtxVariableBytes(R"(.extern .global .u32 elsewhere[100];
.visible .entry k(.param .u64 .ptr .global .align 8 p) {
  .reg .u64 %rd<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], 7;
  .pragma ".global .u32 text[100];";
}
.global .u32 own;)"),
            4u);
}

TEST(VariableBytesTest, TextThatEndsAnywhereIsRead) {
  const std::string text =
      ".global .align 8 .attribute(.managed) .u32 a[4] = {1, 2}, b[2][3]; /* x";
  for (size_t size = 0; size <= text.size(); ++size) PtxVariableBytes(text.substr(0, size));
}

}  // namespace
}  // namespace warpline::worker
