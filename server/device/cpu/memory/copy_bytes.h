// Copies memory that kernels of other streams may be using.
//
// A program may let a kernel spin on a word that a copy on another stream sets. The copy is
// memmove, whose stores are whole words on every processor this runs on; under ThreadSanitizer,
// which cannot know that, it is a loop of atomic stores.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_

#include <cstddef>

namespace warpline::cpu {

// The ranges may overlap. Thread-safe in the sense above.
void CopyBytes(void* dst, const void* src, size_t bytes);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_
