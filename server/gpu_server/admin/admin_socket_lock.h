// Which admin sockets have a server: one that was killed leaves its socket's file behind.
//
// A server holds a lock on a file beside its socket (SOCKET.lock), which the kernel gives up when
// the process is gone, however it ended. Who gets the lock of another socket knows that its server
// is dead, and removes both files.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_LOCK_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline::server {

// Thread-compatible. Its folder is one that this user alone may write to (MakeOwnFolder()).
class AdminSocketLock {
 public:
  // Before the server listens at `socket`. UNAVAILABLE where another server has it, or the file
  // system has no locks.
  static absl::StatusOr<AdminSocketLock> Take(const std::string& socket);
  AdminSocketLock(AdminSocketLock&&) = default;
  AdminSocketLock& operator=(AdminSocketLock&&) = delete;
  // After the socket is gone.
  ~AdminSocketLock();

 private:
  AdminSocketLock(std::string path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;  // Not valid in one that was moved from.
};

// Removes the sockets of this user in `folder` whose servers are dead and at which nobody listens,
// with their locks; returns how many. Those without a lock stay.
int RemoveStaleAdminSockets(const std::string& folder);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_LOCK_H_
