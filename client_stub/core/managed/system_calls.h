// Makes system calls work on mirrored memory.
//
// The kernel raises no signal when a system call is given an inaccessible page: read() fails with
// EFAULT instead. The application's libraries call the C library to get there, so those calls that
// take buffers are led through functions that make the buffer ready first. The libraries' import
// tables (GOT) are changed for that, and only once there is mirrored memory.
//
// Those that set actions for signals are led through functions too, so that a handler for SIGSEGV
// that a program installs comes after ours (fault_handler.h).
//
// These are not reached: system calls that a program makes without the C library; those that the C
// library makes itself for functions other than these; and a library that is loaded, and makes such
// a call before any memory is asked for or work launched.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_

#include <cstdint>

namespace warpline::stub {

// Makes [address, address + bytes) ready; returns false when no part of it is mirrored.
using BufferPreparer = bool (*)(uint64_t address, uint64_t bytes, bool write);

// Leads the calls of everything that is loaded by now through `prepare`, which is called only for
// buffers in [low, high) (SetBufferSpan()). Returns quickly when nothing was loaded since the last
// time. Thread-safe.
void InterposeSystemCalls(BufferPreparer prepare);
// Sets the range [low, high) that holds all mirrored memory. Async-signal-safe.
void SetBufferSpan(uint64_t low, uint64_t high);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_SYSTEM_CALLS_H_
