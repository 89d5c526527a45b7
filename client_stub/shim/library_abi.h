/* The types of warplineLibraryFind, warplineLibraryCall and warplineLibraryAsk, functions of
 * Warpline's libcuda.so.1.
 * By them the libraries of client_stub/libraries have their calls executed by the server. They are
 * found with dlsym(); NVIDIA's driver lacks them. C.
 *
 * Thread-safe. The results are CUresults. */
#ifndef WARPLINE_CLIENT_STUB_SHIM_LIBRARY_ABI_H_
#define WARPLINE_CLIENT_STUB_SHIM_LIBRARY_ABI_H_

#include <stdint.h>

/* Gets the version of the library that the current device's side has, as cublasGetVersion() tells
 * it. CUDA_ERROR_NOT_SUPPORTED when it has none, as on the isolated tier. Asks the server. */
typedef int (*warpline_library_find_t)(unsigned* version);

/* Issues a call to a CUstream, without waiting. `function`, `modes` and `values` are those of
 * proto/adapters/library_call.h. CUDA_ERROR_INVALID_VALUE for arguments that the function refuses,
 * and for operands outside of device memory. */
typedef int (*warpline_library_call_t)(void* stream, unsigned function, unsigned modes,
                                       const uint64_t* values, unsigned count);

/* A question about a call, an enum LtQuestion of proto/adapters/lt_types.h, and room for at most
 * `most` answers of `bytes` each. In place of addresses the values have their alignments. */
struct warpline_library_question {
  unsigned question, function, modes;
  unsigned count;
  const uint64_t* values;
  void* answers;
  unsigned bytes, most;
  unsigned found; /* Written: the number of answers. */
};

/* Gets what the current device's side answers. CUDA_ERROR_NOT_SUPPORTED when it has no algorithm
 * for such a call. Asks the server. */
typedef int (*warpline_library_ask_t)(struct warpline_library_question* question);

#endif /* WARPLINE_CLIENT_STUB_SHIM_LIBRARY_ABI_H_ */
