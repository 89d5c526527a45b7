/* Every function of cuBLASLt, for those that other files lack. */
#define _GNU_SOURCE
#include "client_stub/libraries/defaults.h"

#define CUBLAS_SYMBOL(name) WARPLINE_REFUSED(name)
#include "client_stub/libraries/lt_symbols.inc"
#undef CUBLAS_SYMBOL
