#include "server/worker/module_variables.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

constexpr char kHead[] = ".version 8.0\n.target sm_75\n.address_size 64\n";
constexpr char kKernel[] = ".visible .entry k() { .reg .b64 r; mov.u64 r, counter; ret; }\n";

bool Has(const std::string& body) { return HasWritableVariables(kHead + body, 75); }

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

TEST(ModuleVariablesTest, WhatCannotBeReadCounts) {
  EXPECT_TRUE(
      HasWritableVariables("\x7f"
                           "ELF",
                           90));
  EXPECT_TRUE(HasWritableVariables("nonsense", 90));
  std::string header(
      "\x7f"
      "ELF");
  header.resize(64, '\xff');
  EXPECT_TRUE(HasWritableVariables(header, 255));
}

}  // namespace
}  // namespace warpline::worker
