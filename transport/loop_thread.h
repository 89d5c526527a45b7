// Threads for channel loops. They live in somebody else's process on the client, so they take no
// signals, and they sleep with a timer slack of one microsecond instead of the usual fifty.
#ifndef WARPLINE_TRANSPORT_LOOP_THREAD_H_
#define WARPLINE_TRANSPORT_LOOP_THREAD_H_

#include <signal.h>

#include <functional>
#include <initializer_list>
#include <thread>

#include "absl/status/statusor.h"

namespace warpline {

// Blocks every signal in the calling thread for a scope; threads started meanwhile inherit that.
// Used around calls into libraries that start threads of their own.
class ScopedSignalBlock {
 public:
  ScopedSignalBlock();
  ~ScopedSignalBlock();
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t saved_;
};

// Lets the calling thread take these signals all the same: those of its own faults, where somebody
// handles them.
void UnblockSignals(std::initializer_list<int> signals);

// Starts a thread with every signal but SIGSEGV blocked. `name` is at most 15 characters. The
// caller joins.
std::thread StartLoopThread(const char* name, std::function<void()> body);

// The same where a system without another thread to give must not end the process:
// RESOURCE_EXHAUSTED then, with `body` untouched.
absl::StatusOr<std::thread> TryStartLoopThread(const char* name, const std::function<void()>& body);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LOOP_THREAD_H_
