#include "client_stub/private_tables/cache_folder.h"

#include <sys/stat.h>
#include <utime.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

namespace fs = std::filesystem;

class CacheFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "cache-XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    path_ = root_ + "/one/two";
  }
  void TearDown() override { fs::remove_all(root_); }

  static ContentHash Name(std::string_view text) {
    ContentHash hash;
    EXPECT_TRUE(HashContent(text, &hash));
    return hash;
  }
  std::string FileOf(std::string_view text) const { return path_ + "/" + HashText(Name(text)); }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

  std::string root_;
  std::string path_;
};

TEST_F(CacheFolderTest, WhatWasPutIsFoundByAnother) {
  CacheFolder folder(path_, 1 << 20);
  std::string result;
  EXPECT_FALSE(folder.Find(Name("a"), &result));
  const std::string code(1000, 'x');
  ASSERT_TRUE(folder.Put(Name("a"), code));
  CacheFolder other(path_, 1 << 20);
  ASSERT_TRUE(other.Find(Name("a"), &result));
  EXPECT_EQ(result, code);
  EXPECT_FALSE(other.Find(Name("b"), &result));
  struct stat about;
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
}

TEST_F(CacheFolderTest, DamagedFilesAreNotFound) {
  CacheFolder folder(path_, 1 << 20);
  std::string result;
  ASSERT_TRUE(folder.Put(Name("a"), "some code"));
  fs::resize_file(FileOf("a"), fs::file_size(FileOf("a")) - 1);
  EXPECT_FALSE(folder.Find(Name("a"), &result));
  ASSERT_TRUE(folder.Put(Name("a"), "some code"));
  {
    std::fstream file(FileOf("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('!');
  }
  EXPECT_FALSE(folder.Find(Name("a"), &result));
  std::ofstream(FileOf("b")).put('x');
  EXPECT_FALSE(folder.Find(Name("b"), &result));
}

TEST_F(CacheFolderTest, TheLeastRecentlyUsedGo) {
  CacheFolder folder(path_, 100'000);
  const std::string code(20'000, 'x');
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_TRUE(folder.Put(Name(name), code));
    const utimbuf old = {1000 + i, 1000 + i};
    ASSERT_EQ(utime(FileOf(name).c_str(), &old), 0);
  }
  std::string result;
  ASSERT_TRUE(folder.Find(Name("0"), &result));  // This counts as a use.
  ASSERT_TRUE(folder.Put(Name("4"), code));
  EXPECT_TRUE(folder.Find(Name("0"), &result));
  EXPECT_FALSE(folder.Find(Name("1"), &result));
  EXPECT_TRUE(folder.Find(Name("4"), &result));
  EXPECT_FALSE(folder.Put(Name("5"), std::string(100'001, 'x')));
}

TEST_F(CacheFolderTest, WhatCannotBeKeptIsNotFound) {
  std::ofstream(root_ + "/file").put('x');
  CacheFolder folder(root_ + "/file/folder", 1 << 20);
  std::string result;
  EXPECT_FALSE(folder.Put(Name("a"), "code"));
  EXPECT_FALSE(folder.Find(Name("a"), &result));
  CacheFolder nowhere("", 1 << 20);
  EXPECT_FALSE(nowhere.Put(Name("a"), "code"));
}

TEST_F(CacheFolderTest, AResultIsGoodForItsNameAlone) {
  CacheFolder folder(path_, 1 << 20);
  ASSERT_TRUE(folder.Put(Name("a"), "code"));
  fs::rename(FileOf("a"), FileOf("b"));
  std::string result;
  EXPECT_FALSE(folder.Find(Name("b"), &result));
}

TEST_F(CacheFolderTest, WhatOthersCanWriteIsNotUsed) {
  CacheFolder folder(path_, 1 << 20);
  ASSERT_TRUE(folder.Put(Name("a"), "code"));
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  std::string result;
  EXPECT_FALSE(folder.Find(Name("a"), &result));
  EXPECT_FALSE(folder.Put(Name("b"), "code"));
}

TEST_F(CacheFolderTest, OtherFilesStay) {
  fs::create_directories(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  std::ofstream(path_ + "/thesis.tex") << std::string(100'000, 'x');
  CacheFolder folder(path_, 50'000);
  ASSERT_TRUE(folder.Put(Name("a"), std::string(40'000, 'x')));
  ASSERT_TRUE(folder.Put(Name("b"), std::string(40'000, 'x')));
  EXPECT_TRUE(fs::exists(path_ + "/thesis.tex"));
}

TEST_F(CacheFolderTest, NothingUnfinishedIsLeft) {
  CacheFolder folder(path_, 1 << 20);
  ASSERT_TRUE(folder.Put(Name("a"), "code"));
  ASSERT_TRUE(folder.Put(Name("a"), "code"));
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace warpline
