#include "server/gpu_server/admin/admin_socket_lock.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

class AdminSocketLockTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }
  static bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  static UniqueFd Listen(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd.get(), 4), 0);
    return fd;
  }

  // What a server leaves that is killed.
  void LeaveBehind(const std::string& socket) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto lock = AdminSocketLock::Take(socket);
      const UniqueFd listener = Listen(socket);
      if (!lock.ok() || !listener.valid()) _exit(1);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  warpline::testing::TempFolder folder_;
};

TEST_F(AdminSocketLockTest, WhatAKilledServerLeftIsRemoved) {
  LeaveBehind(At("admin-1.sock"));
  EXPECT_TRUE(Exists(At("admin-1.sock")));
  EXPECT_EQ(RemoveStaleAdminSockets(folder_.path()), 1);
  EXPECT_FALSE(Exists(At("admin-1.sock")));
  EXPECT_FALSE(Exists(At("admin-1.sock.lock")));
  EXPECT_EQ(RemoveStaleAdminSockets(folder_.path()), 0);
  EXPECT_EQ(RemoveStaleAdminSockets(At("nowhere")), 0);
}

TEST_F(AdminSocketLockTest, TheSocketOfAServerThatRunsStays) {
  auto lock = AdminSocketLock::Take(At("admin-1.sock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  // It does not listen yet, or not any more.
  Listen(At("admin-1.sock"));
  EXPECT_EQ(RemoveStaleAdminSockets(folder_.path()), 0);
  EXPECT_TRUE(Exists(At("admin-1.sock")));
  EXPECT_TRUE(absl::IsUnavailable(AdminSocketLock::Take(At("admin-1.sock")).status()));
  { const AdminSocketLock gone = *std::move(lock); }
  EXPECT_FALSE(Exists(At("admin-1.sock.lock")));
  EXPECT_TRUE(AdminSocketLock::Take(At("admin-1.sock")).ok());
}

TEST_F(AdminSocketLockTest, WhatIsNotSurelyAKilledServersStays) {
  // Somebody listens all the same.
  const UniqueFd listener = Listen(At("admin-2.sock"));
  std::ofstream(At("admin-2.sock.lock")) << "";
  // One of a server that took no lock.
  Listen(At("admin-3.sock"));
  // What is no socket, and a lock that leads elsewhere.
  std::ofstream(At("admin-4.sock")) << "text";
  std::ofstream(At("admin-4.sock.lock")) << "";
  Listen(At("admin-5.sock"));
  ASSERT_EQ(symlink(At("admin-4.sock").c_str(), At("admin-5.sock.lock").c_str()), 0);
  EXPECT_EQ(RemoveStaleAdminSockets(folder_.path()), 0);
  for (const char* const name : {"admin-2.sock", "admin-3.sock", "admin-4.sock", "admin-5.sock"}) {
    EXPECT_TRUE(Exists(At(name))) << name;
  }
}

}  // namespace
}  // namespace warpline::server
