#include "tools/cli/token_keeper.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/lease/lease_key.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "tools/cli/token_file.h"

namespace warpline::cli {
namespace {

constexpr char kEndpoint[] = "gpu1:14000";

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// What a program with this environment reads.
absl::StatusOr<std::string> Read() {
  return ReadLeaseToken({.key = Variable(kLeaseKeyVariable),
                         .file = Variable("WARPLINE_TOKEN_FILE"),
                         .endpoint = kEndpoint});
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string TextIn(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TokenKeeperTest : public testing::Test {
 protected:
  TokenKeeperTest() {
    setenv("XDG_RUNTIME_DIR", testing::TempDir().c_str(), 1);
    auto keeper = TokenKeeper::Create(kEndpoint, "first");
    EXPECT_TRUE(keeper.ok()) << keeper.status();
    keeper_ = *std::move(keeper);
    keeper_->Export();
    path_ = Variable("WARPLINE_TOKEN_FILE");
  }

  void RemoveFolder() {
    unlink(path_.c_str());
    EXPECT_EQ(rmdir(FolderOf(path_).c_str()), 0);
  }

  std::unique_ptr<TokenKeeper> keeper_;
  std::string path_;
};

TEST_F(TokenKeeperTest, ProgramsGetTheTokenOfNow) {
  EXPECT_EQ(*Read(), "first");
  EXPECT_EQ(TextIn(path_), "first\n");
  EXPECT_EQ(keeper_->Replace("second"), absl::OkStatus());
  EXPECT_EQ(*Read(), "second");
  EXPECT_EQ(TextIn(path_), "second\n");
}

TEST_F(TokenKeeperTest, WithoutItsFolderProgramsGetTheTokenStill) {
  RemoveFolder();
  EXPECT_EQ(*Read(), "first");
  EXPECT_EQ(keeper_->Replace("second").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(*Read(), "second");
  EXPECT_EQ(keeper_->Replace("third"), absl::OkStatus());
  EXPECT_EQ(*Read(), "third");
}

TEST_F(TokenKeeperTest, WritesNothingIntoAFolderThatAnotherHasMadeInPlaceOfItsOwn) {
  RemoveFolder();
  ASSERT_EQ(mkdir(FolderOf(path_).c_str(), 0777), 0);
  const std::string trap = testing::TempDir() + "/trap";
  ASSERT_EQ(symlink(trap.c_str(), (path_ + ".part").c_str()), 0);
  EXPECT_EQ(keeper_->Replace("second").code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(access(trap.c_str(), F_OK), 0);
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(TokenKeeperTest, ItsFileIsForThisUserAlone) {
  struct stat about = {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(FolderOf(path_).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
}

TEST_F(TokenKeeperTest, ManyWhoConnectAndSayNothingKeepNobodyOut) {
  const sockaddr_un address = LeaseKey::Parse(Variable(kLeaseKeyVariable))->address();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 500; ++i) {
    silent.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
  }
  EXPECT_EQ(*Read(), "first");
}

TEST_F(TokenKeeperTest, WhatAStrangerGetsIsNotTheToken) {
  const sockaddr_un address = LeaseKey::Parse(Variable(kLeaseKeyVariable))->address();
  const UniqueFd stranger(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  std::string bytes(4096, '\0');
  const ssize_t got = recv(stranger.get(), bytes.data(), bytes.size(), MSG_WAITALL);
  ASSERT_GT(got, 0);
  bytes.resize(static_cast<size_t>(got));
  EXPECT_EQ(bytes.find("first"), std::string::npos);
  EXPECT_FALSE(LeaseKey::New(kEndpoint, "").Open(bytes).ok());
  EXPECT_EQ(*LeaseKey::Parse(Variable(kLeaseKeyVariable))->Open(bytes), "first");
}

TEST_F(TokenKeeperTest, AnotherGoesOnWhereItLeavesOff) {
  UniqueFd listener(fcntl(keeper_->listener().get(), F_DUPFD_CLOEXEC, 0));
  keeper_->LeaveFile();
  keeper_.reset();
  EXPECT_EQ(TextIn(path_), "first\n");
  auto next = TokenKeeper::Adopt(std::move(listener), Variable(kLeaseKeyVariable), path_, "second");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*Read(), "second");
  EXPECT_EQ((*next)->Replace("third"), absl::OkStatus());
  EXPECT_EQ(TextIn(path_), "third\n");
  next->reset();
  EXPECT_NE(access(FolderOf(path_).c_str(), F_OK), 0);
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TokenKeeperTest, SaysHowProgramsGetTheTokenWithoutTheFile) {
  RemoveFolder();
  EXPECT_NE(keeper_->Replace("second").message().find("by WARPLINE_LEASE_KEY"), std::string::npos);
  auto deaf = TokenKeeper::Adopt(UniqueFd(), Variable(kLeaseKeyVariable), path_, "second");
  ASSERT_TRUE(deaf.ok()) << deaf.status();
  EXPECT_NE((*deaf)->Replace("third").message().find("find no token"), std::string::npos);
}

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

// Gives this process, which has one thread, a mount of its own at `folder`, in which no file can be
// made but one folder. Returns false where this is not allowed.
bool MountFull(const std::string& folder) {
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && Write("/proc/self/uid_map", user) &&
         Write("/proc/self/setgroups", "deny") && Write("/proc/self/gid_map", group) &&
         mount("none", folder.c_str(), "tmpfs", 0, "nr_inodes=2") == 0;
}

TEST(TokenFileTest, AFullFolderIsPassedOver) {
  std::string full = testing::TempDir() + "/full-XXXXXX";
  ASSERT_NE(mkdtemp(full.data()), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!MountFull(full)) _exit(2);
    setenv("XDG_RUNTIME_DIR", full.c_str(), 1);
    setenv("TMPDIR", testing::TempDir().c_str(), 1);
    const auto file = TokenFile::Create("token");
    _exit(file.ok() && TextIn((*file)->path()) == "token\n" && std::filesystem::is_empty(full) ? 0
                                                                                               : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(TokenKeeperTest, ItsEndLeavesNothing) {
  keeper_.reset();
  EXPECT_NE(access(FolderOf(path_).c_str(), F_OK), 0);
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace warpline::cli
