/* The functions of cuBLAS whose work the server does. */
#include "client_stub/libraries/cublas_handle.h"
#include "proto/adapters/blas_types.h"

/* CUBLAS_GEMM_AUTOTUNE runs all algorithms and waits for each, which the server does not: the
 * default one is used. */
static int warpline_algorithm(int algorithm) { return algorithm == 999 ? -1 : algorithm; }

static int warpline_fits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

#include "proto/adapters/cublas_entries.inc"
