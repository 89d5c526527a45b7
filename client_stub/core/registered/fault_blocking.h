// Tells whether threads of this process block SIGSEGV: a write of theirs to pages that are on the
// move (registered_memory.h) would end the process.
#ifndef WARPLINE_CLIENT_STUB_CORE_REGISTERED_FAULT_BLOCKING_H_
#define WARPLINE_CLIENT_STUB_CORE_REGISTERED_FAULT_BLOCKING_H_

namespace warpline::stub {

// Waits until no thread but the calling one blocks SIGSEGV. Returns false when one goes on doing
// so, after half a second at most, and at once while it is known to. Thread-safe.
bool AwaitFaultsUnblocked();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_REGISTERED_FAULT_BLOCKING_H_
