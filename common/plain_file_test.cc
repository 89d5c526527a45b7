#include "common/plain_file.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

class PlainFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/plain-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string ErrorOf(const std::string& path) {
    return std::string(PlainFile::Open(path).status().message());
  }

  std::string folder_;
};

TEST_F(PlainFileTest, ReadsWhatIsThereAndNoMore) {
  std::ofstream(Path("file")) << "0123456789";
  const auto file = PlainFile::Open(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->Read(0, 4), "0123");
  EXPECT_EQ(file->Read(8, 100), "89");
  EXPECT_EQ(file->Read(2, ~uint64_t{0}), "23456789");
  EXPECT_EQ(file->Read(10, 1), "");
  EXPECT_EQ(file->Read(~uint64_t{0}, ~uint64_t{0}), "");
}

TEST_F(PlainFileTest, AFileThatIsCutMeanwhileGivesLess) {
  std::ofstream(Path("file")) << "0123456789";
  const auto file = PlainFile::Open(Path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(Path("file").c_str(), 3), 0);
  EXPECT_EQ(file->Read(0, 10), "012");
}

TEST_F(PlainFileTest, FollowsLinks) {
  std::ofstream(Path("file")) << "text";
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  EXPECT_TRUE(PlainFile::Open(Path("link")).ok());
}

TEST_F(PlainFileTest, NamesWhatIsNoPlainFile) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf(Path("pipe")), "cannot read " + Path("pipe") + ": it is a pipe");
  EXPECT_EQ(ErrorOf("/dev/zero"), "cannot read /dev/zero: it is a device");
  EXPECT_EQ(ErrorOf(folder_), "cannot read " + folder_ + ": it is a folder");
  ASSERT_EQ(symlink("/dev/zero", Path("link").c_str()), 0);
  EXPECT_EQ(ErrorOf(Path("link")), "cannot read " + Path("link") + ": it is a device");
  ASSERT_EQ(symlink("circle", Path("circle").c_str()), 0);
  EXPECT_EQ(PlainFile::Open(Path("circle")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlainFile::Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PlainFile::Open(std::string("/dev/zero\0x", 11)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlainFileTest, NamesASocket) {
  const UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = Path("s");
  if (path.size() >= sizeof(address.sun_path)) GTEST_SKIP() << "the folder's name is too long";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(ErrorOf(path), "cannot read " + path + ": it is a socket");
}

}  // namespace
}  // namespace warpline
