/* The functions of cuBLAS whose work the server does. */
#include "client_stub/libraries/cublas_handle.h"
#include "proto/adapters/blas_types.h"

static int warpline_fits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

#include "proto/adapters/cublas_entries.inc"
