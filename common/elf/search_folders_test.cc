#include "common/elf/search_folders.h"

#include <string>
#include <vector>

#include "common/elf/dynamic_section.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

using Texts = std::vector<std::string>;

TEST(SearchFoldersTest, ReplacesTokens) {
  EXPECT_EQ(ExpandTokens("/plain", "/o"), Texts{"/plain"});
  EXPECT_EQ(ExpandTokens("$ORIGIN/../lib:${ORIGIN}", "/o"), Texts{"/o/../lib:/o"});
  EXPECT_EQ(ExpandTokens("/usr/$LIB", "/o"), (Texts{"/usr/lib/x86_64-linux-gnu", "/usr/lib64"}));
  EXPECT_EQ(ExpandTokens("/x/${PLATFORM}", "/o"), (Texts{"/x/x86_64", "/x/haswell"}));
  EXPECT_EQ(ExpandTokens("/$LIB/$PLATFORM", "/o").size(), 4u);
}

TEST(SearchFoldersTest, LeavesWhatIsNoToken) {
  for (const std::string text : {"$", "${", "$ORIGINAL", "${ORIGIN", "$HOME", "$$", "${}"}) {
    EXPECT_EQ(ExpandTokens(text, "/o"), Texts{text});
  }
}

TEST(SearchFoldersTest, SplitsLists) {
  EXPECT_EQ(FoldersOf("", ":", "/o"), Texts());
  EXPECT_EQ(FoldersOf("/a:$ORIGIN", ":", "/o"), (Texts{"/a", "/o"}));
  EXPECT_EQ(FoldersOf("/a;/b:", ":;", "/o"), (Texts{"/a", "/b", "."}));
}

TEST(SearchFoldersTest, ListsAndTheirItemsAreBounded) {
  EXPECT_TRUE(ExpandTokens(std::string(kMostNameBytes + 1, 'x'), "/o").empty());
  std::string origins, list;
  for (int i = 0; i < 100; ++i) origins += "$ORIGIN";
  EXPECT_TRUE(ExpandTokens(origins, std::string(1000, 'o')).empty());
  for (int i = 0; i < 10'000; ++i) list += "$ORIGIN:";
  EXPECT_LE(FoldersOf(list, ":", "/o").size(), kMostFolders);
  size_t bytes = 0;
  for (const std::string& folder : FoldersOf(list, ":", std::string(1000, 'o'))) {
    bytes += folder.size();
  }
  EXPECT_LE(bytes, kMostListBytes);
}

}  // namespace
}  // namespace warpline::elf
