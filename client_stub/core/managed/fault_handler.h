// Faults of the application on pages that this library keeps inaccessible.
//
// The handler itself only passes a fault on to a thread of this library and waits: it needs little
// stack, which may be an alternative one, and calls nothing that is not safe in a signal. What is
// none of ours goes to the handler that was there before.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_

#include <cstdint>

namespace warpline::stub {

// Makes the page at `address` accessible; false when it is none of ours. `host_call`: the thread
// that touched it runs a function of a stream. Called on one thread.
using FaultResolver = bool (*)(uint64_t address, bool write, bool host_call);

// All thread-safe.

// Once; false when the system has no thread for it.
bool StartFaultHandler(FaultResolver resolver);
// Where faults may be ours: [low, high).
void SetFaultSpan(uint64_t low, uint64_t high);
// Takes the signal again where the application has taken it since; its handler comes after ours.
void RenewFaultHandler();
// In the child of a fork, which has no such thread: every fault goes on. Async-signal-safe.
void StopFaultHandler();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_FAULT_HANDLER_H_
