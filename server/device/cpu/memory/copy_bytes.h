// Copies memory that kernels of other streams may be using.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_

#include <cstddef>

namespace warpline::cpu {

// The ranges may overlap. Thread-safe in the sense above.
void CopyBytes(void* dst, const void* src, size_t bytes);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_COPY_BYTES_H_
