// The table through which NVRTC (since 12.9) and nvJitLink keep what they compiled, as the driver
// keeps what it compiles. They compile the same source again for every plan of cuDNN; with the
// table that costs one read. README.md says how the slots are known.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILE_CACHE_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILE_CACHE_H_

#include <cstdint>
#include <functional>
#include <string>

namespace warpline {

// Returns the table's slots, static memory. Thread-safe. CUDA's variables decide where results are
// kept and how many bytes: CUDA_CACHE_DISABLE, CUDA_CACHE_PATH and CUDA_CACHE_MAXSIZE, read when
// the first key is made.
void* const* CompileCacheTable();

// Where results are kept and how many bytes; an empty path for nowhere. `variable` reads the
// environment, and returns nullptr for a variable that is not set.
struct CompileCacheSettings {
  std::string path;
  uint64_t max_bytes = 0;
};
CompileCacheSettings ReadCompileCacheSettings(
    const std::function<const char*(const char*)>& variable);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILE_CACHE_H_
