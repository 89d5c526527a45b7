// What the main() functions of Warpline's servers do alike: command line, signals, limits.
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
  const char* log_name;   // In each line of the log.
  const char* usage;      // What --help says before the flags.
  const char* main_file;  // Its flags, and those of TLS, are the ones that --help lists.
};

// Runs `run` after the command line has been parsed, and returns the exit code. --help and
// --version do not return. With code 2: what `run` is not told of, such as an argument that is no
// flag.
int RunServerProgram(const ServerProgram& program, int argc, char** argv, int (*run)());

// Says on stderr what is wrong with the command line or the system; returns the exit code 2.
int Complain(const absl::Status& status);

// SIGTERM and SIGINT, which end a server in order, and SIGPIPE, which does nothing. Made before the
// first thread: all threads then leave them to who waits here.
class EndSignals {
 public:
  EndSignals();

  // Blocks until one comes.
  void Wait() const;
  // False when `timeout` passed first.
  bool WaitFor(absl::Duration timeout) const;

 private:
  sigset_t set_;
};

// Raises the soft limit on descriptors to the hard one, and returns it, at most 2^20: connections,
// chunks, rings and sockets all take some.
size_t RaiseDescriptorLimit();

// This machine's name for logs; empty when it has none.
std::string HostName();

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_SERVER_PROCESS_H_
