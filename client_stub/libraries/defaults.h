/* Defines functions of a library as such that return CUBLAS_STATUS_NOT_SUPPORTED and say so once.
 * The symbols are weak, so that the functions of other files take their places. */
#ifndef WARPLINE_CLIENT_STUB_LIBRARIES_DEFAULTS_H_
#define WARPLINE_CLIENT_STUB_LIBRARIES_DEFAULTS_H_

#include "client_stub/libraries/cublas_handle.h"
#include "client_stub/shim/log_line.h"

static int Refuse(const char* name, char* said) {
  if (!__atomic_test_and_set(said, __ATOMIC_RELAXED)) {
    WarplineLogLine('W', "cublas", "%s is not supported on the guarded tier (docs/libraries.md)",
                    name);
  }
  return kNotSupported;
}

#define WARPLINE_REFUSED(name)          \
  __attribute__((weak)) int name(void); \
  int name(void) {                      \
    static char said;                   \
    return Refuse(#name, &said);        \
  }

#endif /* WARPLINE_CLIENT_STUB_LIBRARIES_DEFAULTS_H_ */
