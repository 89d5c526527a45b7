// Which process on which host: so that a server knows whether a client of the same host still runs.
#ifndef WARPLINE_COMMON_PROCESS_IDENTITY_H_
#define WARPLINE_COMMON_PROCESS_IDENTITY_H_

#include <cstdint>
#include <string>

namespace warpline {

// All are thread-safe, and empty or 0 where the kernel does not say.

// Of the running kernel; another one after each boot.
std::string BootId();
// The inode of this process's namespace of process ids.
uint64_t PidNamespace();
// That of its namespace of users: two processes in the same one mean the same user by a number.
uint64_t UserNamespace();
// When a process started, in ticks since the boot; 0 when it does not run.
uint64_t ProcessStartTime(uint32_t pid);

}  // namespace warpline

#endif  // WARPLINE_COMMON_PROCESS_IDENTITY_H_
