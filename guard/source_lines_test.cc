#include "guard/source_lines.h"

#include "gtest/gtest.h"

namespace warpline::guard {
namespace {

std::string SourceOf(std::string_view text, uint32_t line) {
  std::vector<CheckSite> sites(1);
  sites[0].line = line;
  NameSources(text, &sites);
  return sites[0].source;
}

constexpr char kText[] =
    ".version 8.0\n"                                                        // 1
    ".visible .entry k()\n"                                                 // 2
    "{\n"                                                                   // 3
    "\tmov.u32 %r1, 0;\n"                                                   // 4
    "\t.loc\t1 7 3\n"                                                       // 5
    "\tld.global.u32 %r1, [%rd1];\n"                                        // 6
    "\t{ // callseq 0\n"                                                    // 7
    "\t}\n"                                                                 // 8
    "\tld.global.u32 %r1, [%rd1];\n"                                        // 9
    "\t.loc\t2 112 10, function_name $L__info_string0, inlined_at 1 9 5\n"  // 10
    "\tst.global.u32 [%rd1], %r1;\n"                                        // 11
    "\t.loc\t1 0 3\n"                                                       // 12
    "\t.loc\t5 1 1\n"                                                       // 13
    "\tst.global.u32 [%rd1], %r1;\n"                                        // 14
    "}\n"                                                                   // 15
    "st.global.u32 [%rd1], %r1;\n"                                          // 16
    "\t.file\t1 \"/home/me/my program/saxpy.cu\"\n"
    "\t.file\t2 \"/usr/include/atomics.hpp\", 1689085124, 5\n"
    "\t.file\tx \"none\"\n"
    "\t.file\n"
    "\t.loc\n"
    "\t.loc\tx y z\n";

TEST(SourceLinesTest, TheLastDirectiveBeforeTheLineHolds) {
  EXPECT_EQ(SourceOf(kText, 4), "");
  EXPECT_EQ(SourceOf(kText, 6), "saxpy.cu:7");
  EXPECT_EQ(SourceOf(kText, 9), "saxpy.cu:7");
}

TEST(SourceLinesTest, AnInlinedLineNamesTheCallers) {
  EXPECT_EQ(SourceOf(kText, 11), "saxpy.cu:9 (atomics.hpp:112)");
}

TEST(SourceLinesTest, NothingIsKnownBehindAFunctionAndOfUnknownFiles) {
  EXPECT_EQ(SourceOf(kText, 14), "");
  EXPECT_EQ(SourceOf(kText, 16), "");
  EXPECT_EQ(SourceOf("no directives", 1), "");
}

}  // namespace
}  // namespace warpline::guard
