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

/* Gets the algorithms that the current device's side has for such a call: at most `most`, of which
 * it writes the number to `*found` (struct LtAlgorithm, proto/adapters/lt_types.h). In place of
 * addresses the values have their alignments. CUDA_ERROR_NOT_SUPPORTED when there is no algorithm.
 * Asks the server. */
struct LtAlgorithm;
typedef int (*warpline_library_ask_t)(unsigned function, unsigned modes, const uint64_t* values,
                                      unsigned count, struct LtAlgorithm* algorithms, unsigned most,
                                      unsigned* found);

#endif /* WARPLINE_CLIENT_STUB_SHIM_LIBRARY_ABI_H_ */
