// Tells who is at the other end of a unix socket. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_OWN_USER_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_OWN_USER_H_

#include <sys/types.h>

namespace warpline::grpc_internal {

// Whether the process that connected the unix socket `fd` ran as this process's user or as root,
// as the kernel tells, and is not one that this process started, directly or not: those run as the
// same user where there is no other for them, and do not act for whoever the user is. False where
// that cannot be told. Thread-safe.
bool IsOwnUser(int fd);

// Whether `pid` is `ancestor` or descends from it, by /proc; true where that cannot be told.
bool MayDescendFrom(pid_t pid, pid_t ancestor);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_OWN_USER_H_
