#include "tools/cli/served_libraries.h"

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

constexpr char kFolder[] = "tools/cli/testing";
constexpr char kUser[] = "tools/cli/testing/libserved_user.so";
using Names = std::set<std::string>;
using Lines = std::vector<std::string>;

TEST(ServedLibrariesTest, FunctionsThatAreNotExecutedAreNamed) {
  ServedLibraries served(kFolder);
  EXPECT_EQ(served.names(), Names{"libcublas.so.13"});
  EXPECT_TRUE(served.IsComplete({"libcublas.so.13"}));
  served.AddUser(kUser);
  EXPECT_FALSE(served.IsComplete({"libcublas.so.13"}));
  // Another version of the library has these functions, too.
  EXPECT_TRUE(served.IsComplete({}));
  EXPECT_EQ(served.Lines({"libcublas.so.13"}),
            (Lines{"libcublas.so.13: the server executes 1 of 2 functions that are used",
                   "  cublasXtSgemm: is not executed, and returns an error"}));
  EXPECT_EQ(served.Lines({}), Lines());
}

TEST(ServedLibrariesTest, WithoutTheFolderNoneIsServed) {
  ServedLibraries served("/nonexistent");
  EXPECT_EQ(served.names(), Names());
  served.AddUser(kUser);
  EXPECT_TRUE(served.IsComplete({"libcublas.so.13"}));
}

TEST(ServedLibrariesTest, FilesThatCannotBeReadUseNothing) {
  ServedLibraries served(kFolder);
  served.AddUser("/nonexistent");
  served.AddUser("/etc/passwd");
  EXPECT_TRUE(served.IsComplete({"libcublas.so.13"}));
}

}  // namespace
}  // namespace warpline::cli
