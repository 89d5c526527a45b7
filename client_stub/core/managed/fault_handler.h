// Handles faults of the application on pages that this library keeps inaccessible.
//
// The handler itself only passes a fault on to threads of this library and waits. It needs little
// stack, which may be an alternative one, and calls nothing that is unsafe in a signal. It blocks
// no signal meanwhile, and a handler that leaves it by siglongjmp() does no harm.
//
// A fault on any other address goes to the handler that the program has installed, before or after
// ours, with the mask, the arguments and the stack that the kernel would give it. It may leave by
// siglongjmp() too.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_

#include <signal.h>

#include <cstdint>

namespace warpline::stub {

struct FaultAccess {
  bool write;
  bool host_call;  // The faulting thread runs a function of a stream.
  bool in_work;    // The faulting thread is about to send a command (MirroredMemory::Work).
};
// Makes the page at `address` accessible; returns false when the page is not one of ours. Called on
// several threads at once.
using FaultResolver = bool (*)(uint64_t address, const FaultAccess& access);

// All functions here are thread-safe.

// Called once. Returns false when the system has no thread for the handler.
bool StartFaultHandler(FaultResolver resolver);
// Sets the range of addresses [low, high) in which faults may be ours.
void SetFaultSpan(uint64_t low, uint64_t high);
// Installs the handler again where the application has installed its own past SetProgramAction();
// the application's handler then comes after ours. Unblocks SIGSEGV in this thread, because a
// thread that blocks it would not survive its next touch of such a page.
void RenewFaultHandler();
// sigaction(2) for SIGSEGV, as the program shall see it: while our handler is installed, it sets
// and tells the action that comes after ours. Async-signal-safe.
int SetProgramAction(const struct sigaction* action, struct sigaction* former);
// While one lives, a thread that writes to [begin, end), which the owner has made read-only for a
// moment, waits in the handler until it may. At most one lives at a time.
class WritesHeld {
 public:
  WritesHeld(uint64_t begin, uint64_t end);
  ~WritesHeld();
  WritesHeld(const WritesHeld&) = delete;
  WritesHeld& operator=(const WritesHeld&) = delete;
};

// Called in the child of a fork, which does not have our thread: every fault then goes to the
// former handler. Async-signal-safe.
void StopFaultHandler();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_
