// The escape suite: what a worker that a tenant has taken over tries, once its jail is closed.
//
// Each attempt is a few system calls and says whether they got through. attack.py has all of them
// tried in a worker of a running server, where each must be stopped; and then each by itself in a
// worker whose jail lacks the layers that stop it, where it must succeed: an attempt that fails for
// a reason of its own proves nothing.
#ifndef WARPLINE_TESTS_ATTACK_ESCAPE_H_
#define WARPLINE_TESTS_ATTACK_ESCAPE_H_

#include <sys/types.h>

#include <string>

#include "absl/types/span.h"
#include "server/jail/layers.h"

namespace warpline::attack {

// What there is to be reached. attack.py writes it into a file, a name and a value a line.
struct Targets {
  pid_t server = 0;
  pid_t supervisor = 0;
  pid_t keeper = 0;
  pid_t neighbour = 0;        // The worker of another session.
  std::string secret;         // A file that the server's user alone may read.
  std::string folder;         // A folder that the server's user alone may write to.
  std::string public_folder;  // One that everybody may write to.
  std::string unix_socket;    // Somebody listens at each of these.
  std::string abstract_socket;
  int tcp_port = 0;
  int udp_port = 0;
  int ipc_key = 0;  // Of a System V shared memory segment for everybody.
};

enum class Outcome {
  kStopped,
  kSucceeded,
  kNotHere,  // The host's kernel does not have what the attempt is about.
};

struct Result {
  Outcome outcome;
  std::string detail;
};

struct Attempt {
  const char* name;
  // Every one of them stops the attempt, so that it succeeds only without all.
  jail::LayerSet stoppers;
  Result (*run)(const Targets& targets);
};

// By family; each has a file.
absl::Span<const Attempt> ProcessAttempts();
absl::Span<const Attempt> FileAttempts();
absl::Span<const Attempt> SocketAttempts();
absl::Span<const Attempt> KernelAttempts();

// The result of a call that failed, by errno, or succeeded.
Result Judge(bool succeeded);
// The same for a call that gets as far as its arguments when it is not stopped, and then fails with
// another error than EPERM and EACCES.
Result JudgeReached(long result);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_ESCAPE_H_
