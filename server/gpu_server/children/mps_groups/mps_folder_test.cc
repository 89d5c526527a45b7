#include "server/gpu_server/children/mps_groups/mps_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "server/mps/testing/fake_control.h"

namespace warpline::server {
namespace {

TEST(MpsFolderTest, OthersPassThroughItAndDoNotListIt) {
  const mps::TestFolder place;
  const auto folder = MpsFolder::Make(place.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info = {};
  ASSERT_EQ(stat((*folder)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0711u);
}

TEST(MpsFolderTest, ItIsRemovedWithWhatIsInIt) {
  const mps::TestFolder place;
  auto folder = MpsFolder::Make(place.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::filesystem::create_directories((*folder)->path() + "/1/pipe");
  folder->reset();
  EXPECT_EQ(place.List(), "");
}

TEST(MpsFolderTest, WhatAServerThatWasKilledHasLeftIsRemoved) {
  const mps::TestFolder place;
  std::filesystem::create_directories(place.path() + "/warpline-mps-abcdef/1/pipe");
  std::filesystem::create_directories(place.path() + "/another");
  const auto folder = MpsFolder::Make(place.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_FALSE(std::filesystem::exists(place.path() + "/warpline-mps-abcdef"));
  EXPECT_TRUE(std::filesystem::exists(place.path() + "/another"));
}

TEST(MpsFolderTest, ThatOfAServerThatLivesIsLeftAlone) {
  const mps::TestFolder place;
  const auto first = MpsFolder::Make(place.path());
  const auto second = MpsFolder::Make(place.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(std::filesystem::exists((*first)->path()));
  EXPECT_NE((*first)->path(), (*second)->path());
}

TEST(MpsFolderTest, ALinkThatLooksLikeOneIsNotFollowed) {
  const mps::TestFolder place;
  const mps::TestFolder elsewhere;
  std::ofstream(elsewhere.path() + "/file") << "kept";
  std::filesystem::create_symlink(elsewhere.path(), place.path() + "/warpline-mps-abcdef");
  ASSERT_TRUE(MpsFolder::Make(place.path()).ok());
  EXPECT_EQ(elsewhere.List(), "file");
}

TEST(MpsFolderTest, AServiceHasItInTheFolderThatItHasForThat) {
  const mps::TestFolder place;
  setenv("RUNTIME_DIRECTORY", (place.path() + ":/elsewhere").c_str(), 1);
  const auto folder = MpsFolder::Make("");
  unsetenv("RUNTIME_DIRECTORY");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->path().find(place.path() + "/warpline-mps-"), 0u);
}

TEST(MpsFolderTest, APathThatIsTooLongForSocketsIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(MpsFolder::Make("/tmp/" + std::string(60, 'x')).status()));
}

}  // namespace
}  // namespace warpline::server
