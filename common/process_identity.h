// Identifies a process on a host, so that a server knows whether a client of the same host still
// runs.
#ifndef WARPLINE_COMMON_PROCESS_IDENTITY_H_
#define WARPLINE_COMMON_PROCESS_IDENTITY_H_

#include <cstdint>
#include <string>

namespace warpline {

// These functions are thread-safe, and return an empty string or 0 where the kernel does not say.

// The id of this boot of the running kernel; it changes with each boot.
std::string BootId();
// The inode of this process's namespace of process ids.
uint64_t PidNamespace();
// The inode of this process's namespace of users. Two processes in the same namespace mean the same
// user by the same number.
uint64_t UserNamespace();
// The time when a process started, in ticks since the boot; 0 when it does not run.
uint64_t ProcessStartTime(uint32_t pid);
// The size of a process's address space, with what is only set aside.
uint64_t AddressSpaceBytes(uint32_t pid);

}  // namespace warpline

#endif  // WARPLINE_COMMON_PROCESS_IDENTITY_H_
