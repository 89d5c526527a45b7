#include "server/device/cpu/memory/copy_bytes.h"

#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define WARPLINE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WARPLINE_TSAN 1
#endif
#endif

namespace warpline::cpu {

#ifdef WARPLINE_TSAN

namespace {

template <typename T>
void CopyOne(T* dst, const T* src) {
  __atomic_store_n(dst, __atomic_load_n(src, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

}  // namespace

void CopyBytes(void* dst, const void* src, size_t bytes) {
  auto* const d = static_cast<char*>(dst);
  const auto* const s = static_cast<const char*>(src);
  const bool words = (reinterpret_cast<uintptr_t>(d) | reinterpret_cast<uintptr_t>(s)) % 4 == 0;
  const size_t unit = words ? 4 : 1;
  const bool backwards = d > s;
  const size_t whole = bytes / unit * unit;
  if (backwards) {
    for (size_t i = bytes; i > whole; --i) CopyOne(d + i - 1, s + i - 1);
  }
  for (size_t k = 0; k < whole; k += unit) {
    const size_t i = backwards ? whole - unit - k : k;
    if (words) {
      CopyOne(reinterpret_cast<uint32_t*>(d + i), reinterpret_cast<const uint32_t*>(s + i));
    } else {
      CopyOne(d + i, s + i);
    }
  }
  if (!backwards) {
    for (size_t i = whole; i < bytes; ++i) CopyOne(d + i, s + i);
  }
}

#else

void CopyBytes(void* dst, const void* src, size_t bytes) { std::memmove(dst, src, bytes); }

#endif

}  // namespace warpline::cpu
