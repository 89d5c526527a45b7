#include "common/lease_folder.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

class LeaseFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/lease-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }

  const HeldLease lease_ = {
      .endpoint = "10.0.0.7:14000", .token_file = "", .driver_version = "13000", .tier = "guarded"};
  std::string folder_;
};

TEST_F(LeaseFolderTest, WhatIsWrittenIsRead) {
  ASSERT_EQ(WriteLeaseFolder(folder_, lease_, "secret", TokenReaders{}), absl::OkStatus());
  const HeldLease read = ReadLeaseFolder(folder_);
  EXPECT_EQ(read.endpoint, "10.0.0.7:14000");
  EXPECT_EQ(read.driver_version, "13000");
  EXPECT_EQ(read.tier, "guarded");
  std::string token;
  std::ifstream(read.token_file) >> token;
  EXPECT_EQ(token, "secret");
}

TEST_F(LeaseFolderTest, TheTokenIsForItsReadersWhateverTheMaskIs) {
  for (const mode_t mask : {0u, 077u}) {
    for (const auto& [readers, mode] :
         {std::pair(TokenReaders{}, 0600u), std::pair(TokenReaders{.all = true}, 0644u)}) {
      const mode_t former = umask(mask);
      ASSERT_EQ(WriteLeaseFolder(folder_, lease_, "secret", readers), absl::OkStatus());
      struct stat info = {};
      ASSERT_EQ(stat((folder_ + "/token").c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, mode);
      ASSERT_EQ(ReplaceTokenIn(folder_, "fresh", readers), absl::OkStatus());
      umask(former);
      ASSERT_EQ(stat((folder_ + "/token").c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, mode);
    }
  }
}

TEST_F(LeaseFolderTest, AFolderInWhichOthersMayWriteIsNoOwnFolder) {
  EXPECT_EQ(CheckOwnFolder(folder_), absl::OkStatus());
  for (const mode_t mode : {0770u, 0702u, 01777u}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(CheckOwnFolder(folder_).code(), absl::StatusCode::kInvalidArgument) << mode;
  }
}

TEST_F(LeaseFolderTest, AnEmptyFolderSaysNothing) {
  const HeldLease read = ReadLeaseFolder(folder_);
  EXPECT_EQ(read.endpoint, "");
  EXPECT_EQ(read.token_file, folder_ + "/token");
  EXPECT_EQ(ReadLeaseFolder("/does/not/exist").endpoint, "");
}

TEST_F(LeaseFolderTest, ClearingLeavesNothingOfTheLease) {
  ASSERT_EQ(WriteLeaseFolder(folder_, lease_, "secret", TokenReaders{}), absl::OkStatus());
  ASSERT_EQ(ClearLeaseFolder(folder_), absl::OkStatus());
  ASSERT_EQ(ClearLeaseFolder(folder_), absl::OkStatus());
  EXPECT_EQ(ReadLeaseFolder(folder_).endpoint, "");
  EXPECT_NE(access((folder_ + "/token").c_str(), F_OK), 0);
}

TEST_F(LeaseFolderTest, ATokenIsReplacedAndALinkInItsPlaceIsNotFollowed) {
  ASSERT_EQ(WriteLeaseFolder(folder_, lease_, "secret", TokenReaders{}), absl::OkStatus());
  const std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "mine";
  ASSERT_EQ(symlink(victim.c_str(), (folder_ + "/token.part").c_str()), 0);
  ASSERT_EQ(ReplaceTokenIn(folder_, "fresh", TokenReaders{}), absl::OkStatus());
  std::string text;
  std::ifstream(victim) >> text;
  EXPECT_EQ(text, "mine");
  std::ifstream(folder_ + "/token") >> text;
  EXPECT_EQ(text, "fresh");
}

TEST_F(LeaseFolderTest, TheTokenForAnotherUserStaysTheOwners) {
  ASSERT_EQ(WriteLeaseFolder(folder_, lease_, "secret", {.user = geteuid()}), absl::OkStatus());
  ASSERT_EQ(ReplaceTokenIn(folder_, "fresh", {.user = geteuid()}), absl::OkStatus());
  struct stat info = {};
  ASSERT_EQ(stat((folder_ + "/token").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, geteuid());
  // The group's bits show what the list allows at most.
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_GT(getxattr((folder_ + "/token").c_str(), "system.posix_acl_access", nullptr, 0), 0);
}

TEST_F(LeaseFolderTest, AUserThatThereCannotBeIsSaid) {
  // This number stands for no user.
  const absl::Status status =
      WriteLeaseFolder(folder_, lease_, "secret", {.user = static_cast<uid_t>(-1)});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("cannot let user"), std::string::npos) << status;
  EXPECT_NE(access((folder_ + "/token").c_str(), F_OK), 0);
  EXPECT_NE(access((folder_ + "/token.part").c_str(), F_OK), 0);
}

TEST_F(LeaseFolderTest, SaysWhatCannotBeWritten) {
  const absl::Status status = WriteLeaseFolder("/does/not/exist", lease_, "secret", TokenReaders{});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("/does/not/exist"), std::string::npos);
}

TEST_F(LeaseFolderTest, WhatAnEditorAddsDoesNotCount) {
  std::ofstream(folder_ + "/endpoint") << "\xef\xbb\xbfgpu1:9310\r\n";
  EXPECT_EQ(ReadLeaseFolder(folder_).endpoint, "gpu1:9310");
}

TEST_F(LeaseFolderTest, AHugeFileSaysNothing) {
  std::ofstream(folder_ + "/endpoint") << std::string(1 << 20, 'a');
  EXPECT_EQ(ReadLeaseFolder(folder_).endpoint, "");
}

}  // namespace
}  // namespace warpline
