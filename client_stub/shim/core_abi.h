/* The interface between libcuda.so.1 (the shim) and libwarpline_core.so. C and C++.
 *
 * The shim exports every symbol of the driver API and implements none. At the first call of any of
 * them it loads the core from its own directory and calls warpline_core_attach(), once per process,
 * on the thread that came first, without holding a lock that the core could need. The core must not
 * call an exported driver function from inside warpline_core_attach(). */
#ifndef WARPLINE_CLIENT_STUB_SHIM_CORE_ABI_H_
#define WARPLINE_CLIENT_STUB_SHIM_CORE_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARPLINE_SHIM_ABI_VERSION 2

/* Lives as long as the process. */
struct warpline_shim {
  uint32_t abi_version;     /* WARPLINE_SHIM_ABI_VERSION of the shim. */
  uint32_t count;           /* Length of both arrays, and of `table` below. */
  const char* const* names; /* Exported symbols ("cuMemAlloc_v2"), in strcmp() order. */
  void* const* trampolines; /* Their addresses, which cuGetProcAddress gives out. */
  /* Writes with the host's stdio, to stdout (descriptor 1) or stderr (2). With `wait` 0 it returns
   * 0 and writes nothing when another thread holds that stream locked; otherwise it returns 1. */
  int (*print)(int descriptor, const char* text, size_t size, int wait);
};

/* Stores the core's function for shim->names[i] into table[i] and leaves NULL where it has none:
 * such an entry returns CUDA_ERROR_NOT_SUPPORTED and says so once on stderr. `table` is the
 * caller's and invalid after the return. Returns 0 or a CUresult; after a CUresult the core counts
 * as not loaded for the rest of the process, and every entry returns
 * CUDA_ERROR_SYSTEM_NOT_READY. */
int warpline_core_attach(const struct warpline_shim* shim, void** table);

#ifdef __cplusplus
}
#endif

#endif /* WARPLINE_CLIENT_STUB_SHIM_CORE_ABI_H_ */
