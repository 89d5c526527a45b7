// The parts that the main() functions of Warpline's servers share: command line, signals, limits.
#ifndef WARPLINE_COMMON_SERVING_SERVER_PROCESS_H_
#define WARPLINE_COMMON_SERVING_SERVER_PROCESS_H_

#include <signal.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpline {

struct ServerProgram {
  const char* name;       // "warpline-server"
  const char* log_name;   // Stands in each line of the log.
  const char* usage;      // What --help prints before the flags.
  const char* main_file;  // --help lists its flags, and those of files `*_flags.cc`.
};

// Does what StartProgram() does (common/program_start.h), parses the command line, then calls `run`
// and returns its exit code. --help and --version do not return. Returns 2 without calling `run`
// when there is an argument that is no flag.
int RunServerProgram(const ServerProgram& program, int argc, char** argv, int (*run)());

// Prints on stderr what is wrong with the command line or the system, and returns the exit code 2.
int Complain(const absl::Status& status);

// Blocks SIGTERM and SIGINT, which end a server in order, and waits for them; makes the process
// ignore SIGPIPE. A SIGINT that the process has inherited as ignored stays ignored. Make it before
// the first thread: all threads then leave the two signals to the one that waits here.
class EndSignals {
 public:
  EndSignals();

  // Blocks until SIGTERM or SIGINT comes.
  void Wait() const;
  // Returns false when `timeout` passed first.
  bool WaitFor(absl::Duration timeout) const;

 private:
  sigset_t set_;
};

// Raises the soft limit on descriptors to the hard one, and returns it, at most 2^20. Connections,
// chunks, rings and sockets all take descriptors.
size_t RaiseDescriptorLimit();

// This machine's name for logs; empty when it has none.
std::string HostName();

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_SERVER_PROCESS_H_
