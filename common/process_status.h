// Reads what the kernel says of a process in /proc/PID/stat.
#ifndef WARPLINE_COMMON_PROCESS_STATUS_H_
#define WARPLINE_COMMON_PROCESS_STATUS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace warpline {

struct ProcessStatus {
  std::string name;  // The program's, cut off as the kernel does. It may have any characters.
  char state = 0;    // The main thread's, as in `man 5 proc`: R, S, D, Z, ...
  pid_t parent = 0;
  int threads = 0;
  uint64_t started = 0;  // In ticks since the boot.
};

// These functions are thread-safe.

// Empty when there is no such process, also when it ends while it is read.
std::optional<ProcessStatus> ReadProcessStatus(pid_t pid);

// The numbers of all processes that this one can see. Some may have ended since; empty where /proc
// cannot be read.
std::vector<pid_t> AllProcesses();

}  // namespace warpline

#endif  // WARPLINE_COMMON_PROCESS_STATUS_H_
