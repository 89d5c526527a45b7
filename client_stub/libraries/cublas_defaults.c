/* Defines every function of cuBLAS as one that returns CUBLAS_STATUS_NOT_SUPPORTED and says so
 * once. The symbols are weak, so that the functions of this folder's other files take their places.
 */
#define _GNU_SOURCE
#include "client_stub/libraries/cublas_handle.h"
#include "client_stub/shim/log_line.h"

static int Refuse(const char* name, char* said) {
  if (!__atomic_test_and_set(said, __ATOMIC_RELAXED)) {
    WarplineLogLine('W', "cublas", "%s is not supported on the guarded tier (docs/libraries.md)",
                    name);
  }
  return kNotSupported;
}

#define CUBLAS_SYMBOL(name)             \
  __attribute__((weak)) int name(void); \
  int name(void) {                      \
    static char said;                   \
    return Refuse(#name, &said);        \
  }
#include "client_stub/libraries/cublas_symbols.inc"
#undef CUBLAS_SYMBOL
