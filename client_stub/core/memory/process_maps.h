// What the kernel says of this process's mappings.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_PROCESS_MAPS_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_PROCESS_MAPS_H_

#include <cstdint>
#include <vector>

namespace warpline::stub {

struct ProcessMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool is_private = false;
  uint64_t offset = 0;  // In its file.
  uint64_t inode = 0;   // 0 without a file.
};

// Gives the mappings that have parts in [begin, end), in the order of their addresses. Returns
// false when the kernel does not tell. Thread-safe: what other threads map meanwhile may be in it
// or not.
bool MappingsAt(uint64_t begin, uint64_t end, std::vector<ProcessMapping>* found);

// Returns true when the process has mapped all pages of [begin, begin + bytes), which must not be
// empty. Makes one system call.
bool IsMapped(uint64_t begin, uint64_t bytes);

// Returns true when [begin, end) may have a part of a stack that is in use: the first thread's, or
// the calling thread's, also the one for its signals. The stacks of other threads look like any
// other memory.
bool MayBeStack(uint64_t begin, uint64_t end);
// Returns true when [begin, end) may have a part of the first thread's stack, which the kernel
// grows.
bool MayBeFirstStack(uint64_t begin, uint64_t end);
// Returns whether the calling thread runs on that stack.
bool RunsOnFirstStack();

// Whether [begin, end) is mapped without a gap, all of it private memory without a file that may
// be read and written, and not executed.
bool IsPlainMemory(const std::vector<ProcessMapping>& mappings, uint64_t begin, uint64_t end);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_PROCESS_MAPS_H_
