#include "tools/cli/table.h"

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

TEST(TableTest, ColumnsAreAsWideAsWhatIsInThem) {
  Table table({{"ID", true}, {"NAME"}, {"WHY"}});
  table.Add({"7", "a", "x"});
  table.Add({"1234", "longer name", ""});
  EXPECT_EQ(table.Text(),
            "  ID  NAME         WHY\n"
            "   7  a            x\n"
            "1234  longer name\n");
}

TEST(TableTest, OptionalColumnsWithoutContentAreLeftOut) {
  Table table({{"A"}, {"B", false, true}, {"C", false, true}});
  table.Add({"1", "", ""});
  table.Add({"2", "", "x"});
  EXPECT_EQ(table.Text(), "A  C\n1\n2  x\n");
  EXPECT_EQ(Table({{"A"}, {"B", false, true}}).Text(), "A\n");
}

TEST(TableTest, LinesAreCutBetweenCharacters) {
  Table table({{"N"}});
  table.Add({"\xc3\xa4\xc3\xb6\xc3\xbc"});
  EXPECT_EQ(table.Text(2), "N\n\xc3\xa4\xc3\xb6\n");
  EXPECT_EQ(table.Text(3), "N\n\xc3\xa4\xc3\xb6\xc3\xbc\n");
}

}  // namespace
}  // namespace warpline::cli
