// Reads the memory of a session that was lost (include/warpline.h).
#ifndef WARPLINE_TESTS_CHAOS_READ_BACK_H_
#define WARPLINE_TESTS_CHAOS_READ_BACK_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

// Copies `bytes` at the device address `from` to `to`. Returns a CUresult, or -1 where the loaded
// libcuda cannot do so.
inline int ReadBackMemory(void* to, const void* from, size_t bytes) {
  using Function = int (*)(void*, unsigned long long, size_t);
  void* const libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (libcuda == nullptr) return -1;
  const auto read = reinterpret_cast<Function>(dlsym(libcuda, "warplineMemoryReadback"));
  return read == nullptr ? -1 : read(to, reinterpret_cast<uintptr_t>(from), bytes);
}

#endif  // WARPLINE_TESTS_CHAOS_READ_BACK_H_
