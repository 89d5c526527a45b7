#include "common/vetted/program_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

VettedImage ImageOf(const std::string& content) {
  VettedImage image;
  HashContent(content, &image.hash);
  image.bytes = content.size();
  image.what = "ptx";
  return image;
}

class ProgramFolderTest : public testing::Test {
 protected:
  ProgramFolderTest() {
    const char* const tmp = getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/programs-XXXXXX");
    root_ = mkdtemp(path.data());
    dir_ = root_ / "programs";
  }
  ~ProgramFolderTest() override { fs::remove_all(root_); }

  absl::StatusOr<VettedFolder> Read() {
    unreadable_.clear();
    return ReadVettedFolder(dir_, &unreadable_);
  }

  fs::path root_;
  std::string dir_;
  std::vector<std::string> unreadable_;
};

TEST_F(ProgramFolderTest, WhatIsWrittenIsReadUntilItIsRemoved) {
  EXPECT_TRUE(absl::IsNotFound(Read().status()));
  ASSERT_TRUE(WriteProgram(dir_, "one", "/bin/one", {ImageOf("a"), ImageOf("b")}).ok());
  ASSERT_TRUE(WriteProgram(dir_, "two", "/bin/two", {ImageOf("c")}).ok());
  ASSERT_TRUE(WriteProgram(dir_, "one", "/bin/one", {ImageOf("d")}).ok());
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre(Pair("one", SizeIs(1)), Pair("two", SizeIs(1))));
  EXPECT_EQ(read->at("one")[0].hash, ImageOf("d").hash);
  EXPECT_EQ(read->at("one")[0].bytes, 1u);
  EXPECT_TRUE(RemoveProgram(dir_, "one").ok());
  EXPECT_TRUE(absl::IsNotFound(RemoveProgram(dir_, "one")));
  EXPECT_THAT(*Read(), ElementsAre(Pair("two", SizeIs(1))));
}

TEST_F(ProgramFolderTest, NamesStayInTheFolder) {
  for (const char* name : {"", "..", ".hidden", "a/b", "../x", "a b", "a\nb"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WriteProgram(dir_, name, "x", {}))) << name;
    EXPECT_TRUE(absl::IsNotFound(RemoveProgram(dir_, name))) << name;
  }
  EXPECT_FALSE(IsProgramName(std::string(65, 'x')));
  EXPECT_TRUE(IsProgramName("llama-7b_v1.2"));
}

TEST_F(ProgramFolderTest, AFileThatIsNoneIsLeftOutAndTold) {
  ASSERT_TRUE(WriteProgram(dir_, "good", "x", {ImageOf("a")}).ok());
  std::ofstream(dir_ + "/bad.program") << "# a comment\n\nnot a hash 1 ptx\n";
  std::ofstream(dir_ + "/short.program") << HashText(ImageOf("a").hash).substr(1) << " 1 ptx\n";
  std::ofstream(dir_ + "/notes.txt") << "ignored";
  fs::create_symlink("/dev/zero", dir_ + "/endless.program");
  EXPECT_THAT(*Read(), ElementsAre(Pair("good", SizeIs(1))));
  EXPECT_THAT(unreadable_, testing::UnorderedElementsAre(HasSubstr("bad.program: line 3"),
                                                         HasSubstr("short.program: line 1"),
                                                         HasSubstr("endless.program")));
}

TEST_F(ProgramFolderTest, AFolderThatOthersWriteToIsRefused) {
  ASSERT_TRUE(WriteProgram(dir_, "one", "x", {ImageOf("a")}).ok());
  chmod(dir_.c_str(), 0775);
  EXPECT_TRUE(absl::IsFailedPrecondition(Read().status()));
  chmod(dir_.c_str(), 0757);
  EXPECT_TRUE(absl::IsFailedPrecondition(Read().status()));
  chmod(dir_.c_str(), 0755);
  EXPECT_TRUE(Read().ok());
}

TEST_F(ProgramFolderTest, ThereIsABoundOnAllImages) {
  std::vector<VettedImage> images;
  for (size_t i = 0; i < kMostVettedImages; ++i) images.push_back(ImageOf(absl::StrCat(i)));
  ASSERT_TRUE(WriteProgram(dir_, "many", "x", images).ok());
  EXPECT_TRUE(Read().ok());
  ASSERT_TRUE(WriteProgram(dir_, "more", "x", {ImageOf("a")}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Read().status()));
}

}  // namespace
}  // namespace warpline
