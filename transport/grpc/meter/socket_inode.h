// Tells a socket from another file that has got its descriptor's number since. Private to
// transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_SOCKET_INODE_H_
#define WARPLINE_TRANSPORT_GRPC_METER_SOCKET_INODE_H_

#include <sys/stat.h>
#include <sys/types.h>

namespace warpline::grpc_internal {

// Returns 0 for what is no socket, such as a descriptor that is closed. Thread-safe.
inline ino_t SocketInode(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_SOCKET_INODE_H_
