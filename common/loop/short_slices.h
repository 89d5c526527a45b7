// A loop does little at a time and then waits. When processors are wanted by more threads than
// there are, the kernel lets it wait for one behind those that compute, for some milliseconds
// each time, unless it asks for the processor in short slices: it gets no more of it, but sooner
// (EEVDF's custom slices, since Linux 6.12; older kernels pay no heed).
#ifndef WARPLINE_COMMON_LOOP_SHORT_SLICES_H_
#define WARPLINE_COMMON_LOOP_SHORT_SLICES_H_

namespace warpline {

// For the calling thread, and for the threads and processes that it starts from now on. Does
// nothing for one with a real-time or batch policy, or where a system-call filter forbids it.
void AskForShortSlices();

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOOP_SHORT_SLICES_H_
