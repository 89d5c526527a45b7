// The allocator of the process that this library is a guest in, under the names that the private
// libraries beside it call.
//
// They are loaded with RTLD_DEEPBIND, so that without these functions they would find libc's
// allocator where the process has put another in its place (jemalloc, tcmalloc): what libc
// allocates for one of them with the process's allocator would then be freed with the wrong one.
//
// A sanitizer's allocator cannot be forwarded to, and sanitizers refuse RTLD_DEEPBIND: there these
// functions are left out.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

// The process's function `name`. RTLD_DEFAULT would find the one in this file.
void* Host(const char* name) {
  void* const process = dlopen(nullptr, RTLD_LAZY);
  void* const function = process == nullptr ? nullptr : dlsym(process, name);
  if (function == nullptr) abort();  // Every process has libc.
  return function;
}

// Looked up at the first call, by whichever thread: all find the same.
#define WARPLINE_HOST(name)                             \
  ([] {                                                 \
    static std::atomic<void*> host{nullptr};            \
    void* found = host.load(std::memory_order_relaxed); \
    if (found == nullptr) {                             \
      found = Host(#name);                              \
      host.store(found, std::memory_order_relaxed);     \
    }                                                   \
    return reinterpret_cast<decltype(&::name)>(found);  \
  }())

}  // namespace

extern "C" {

void* memalign(size_t alignment, size_t bytes) noexcept;
void* pvalloc(size_t bytes) noexcept;
size_t malloc_usable_size(void* memory) noexcept;

void* malloc(size_t bytes) noexcept { return WARPLINE_HOST(malloc)(bytes); }
void free(void* memory) noexcept { WARPLINE_HOST(free)(memory); }
void* calloc(size_t count, size_t bytes) noexcept { return WARPLINE_HOST(calloc)(count, bytes); }
void* realloc(void* memory, size_t bytes) noexcept { return WARPLINE_HOST(realloc)(memory, bytes); }
void* memalign(size_t alignment, size_t bytes) noexcept {
  return WARPLINE_HOST(memalign)(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return WARPLINE_HOST(aligned_alloc)(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  return WARPLINE_HOST(posix_memalign)(memory, alignment, bytes);
}
void* valloc(size_t bytes) noexcept { return WARPLINE_HOST(valloc)(bytes); }
void* pvalloc(size_t bytes) noexcept { return WARPLINE_HOST(pvalloc)(bytes); }
size_t malloc_usable_size(void* memory) noexcept {
  return WARPLINE_HOST(malloc_usable_size)(memory);
}

// Debian's libstdc++ takes this from glibc 2.36; with it here older systems do.
uint32_t arc4random() noexcept {
  uint32_t value;
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    if (errno != EINTR) abort();  // No system that runs CUDA lacks getrandom(2).
  }
  return value;
}

}  // extern "C"

#endif
