// System calls on mirrored memory.
//
// The kernel does not raise a signal for an inaccessible page that a system call is given: read()
// fails with EFAULT instead. So the calls of the application's libraries to the C library that take
// buffers are led through functions that have the buffer ready first. Their import tables (GOT) are
// changed for that, and only once there is mirrored memory.
//
// Not reached are system calls that a program makes without the C library, those that the C library
// makes by itself for other functions than these, and a library that is loaded, asks for no memory
// and launches nothing before it makes such a call.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_

#include <cstdint>

namespace warpline::stub {

// Has [address, address + bytes) ready; false when nothing of it is mirrored.
using BufferPreparer = bool (*)(uint64_t address, uint64_t bytes, bool write);

// Leads the calls of whatever is loaded by now through `prepare`, which is called for buffers in
// [low, high) only (SetBufferSpan). Does next to nothing when nothing was loaded since the last
// time. Thread-safe.
void InterposeSystemCalls(BufferPreparer prepare);
// Async-signal-safe.
void SetBufferSpan(uint64_t low, uint64_t high);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_
