#include "server/gpu_server/admin/admin_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

class AdminSocketTest : public ::testing::Test {
 protected:
  AdminSocketTest() {
    unsetenv("RUNTIME_DIRECTORY");
    setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }

  testing::TempFolder folder_;
};

TEST_F(AdminSocketTest, TakesWordsAndPaths) {
  EXPECT_TRUE(CheckAdminSocket("auto").ok());
  EXPECT_TRUE(CheckAdminSocket("none").ok());
  EXPECT_TRUE(CheckAdminSocket("/run/x.sock").ok());
  EXPECT_FALSE(CheckAdminSocket("x.sock").ok());
  EXPECT_EQ(AdminSocketPath("none", "1").value(), "");
  EXPECT_EQ(AdminSocketPath("/run/x.sock", "1").value(), "/run/x.sock");
}

TEST_F(AdminSocketTest, IsInAFolderForItsUserAlone) {
  EXPECT_EQ(AdminSocketPath("auto", "14000").value(),
            folder_.path() + "/warpline/admin-14000.sock");
  struct stat about = {};
  ASSERT_EQ(stat((folder_.path() + "/warpline").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
  // A second time it is there.
  EXPECT_TRUE(AdminSocketPath("auto", "14001").ok());
}

TEST_F(AdminSocketTest, AFolderThatCannotBeWrittenToIsNotTaken) {
  const std::string own = folder_.path() + "/own";
  ASSERT_EQ(mkdir(own.c_str(), 0700), 0);
  // Root may write everywhere.
  const bool root = geteuid() == 0;
  if (root) {
    constexpr uid_t kNobody = 65534;
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    if (chown(own.c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no other user to be";
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const absl::Status writable = MakeOwnFolder(own);
  EXPECT_EQ(chmod(own.c_str(), 0500), 0);
  const absl::Status refused = MakeOwnFolder(own);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_TRUE(writable.ok()) << writable;
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
}

TEST_F(AdminSocketTest, AServiceHasAFolderOfItsOwn) {
  setenv("RUNTIME_DIRECTORY", "/run/warpline:/run/other", 1);
  EXPECT_EQ(AdminSocketPath("auto", "14000").value(), "/run/warpline/admin.sock");
}

TEST_F(AdminSocketTest, AFolderThatOthersMayChangeIsRefused) {
  const std::string shared = folder_.path() + "/shared";
  ASSERT_EQ(mkdir(shared.c_str(), 0700), 0);
  ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(MakeOwnFolder(shared)));
  const std::string link = folder_.path() + "/link";
  ASSERT_EQ(symlink("/", link.c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(MakeOwnFolder(link)));
  EXPECT_TRUE(absl::IsPermissionDenied(MakeOwnFolder(geteuid() == 0 ? "/tmp" : "/")));
}

}  // namespace
}  // namespace warpline::server
