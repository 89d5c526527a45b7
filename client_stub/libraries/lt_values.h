/* The values of a call of cublasLtMatmul(), which the server makes, from the contents of the
 * program's descriptors (proto/adapters/cublas_slots.h). */
#ifndef WARPLINE_CLIENT_STUB_LIBRARIES_LT_VALUES_H_
#define WARPLINE_CLIENT_STUB_LIBRARIES_LT_VALUES_H_

#include <stdint.h>

#include "client_stub/libraries/cublas_handle.h"
#include "client_stub/libraries/lt_descriptors.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_operands.h"
#include "proto/adapters/lt_types.h"

/* The matrices of a call: descriptors, and addresses or alignments. */
struct lt_matrices {
  const struct lt_layout *a, *b, *c, *d;
  uint64_t at[4];
};

/* Fills all of kLtMatmulValues but for scalars and the algorithm. kNotSupported, after one line on
 * stderr, for what the server does not do. */
HIDDEN int warpline_lt_values(const struct lt_description* description,
                              const struct lt_matrices* matrices, uint64_t* values);

/* The handle's modes for such a call (proto/adapters/library_call.h). */
HIDDEN unsigned warpline_lt_modes(const struct lt_description* description);

/* Returns kNotSupported, and says on stderr that `what` is. `said` is 0 until it has said so. */
HIDDEN int warpline_lt_unsupported(const char* what, char* said);

/* Returns from the function when the call has something that the server does not do. */
#define LT_WITHOUT(condition, what)                             \
  do {                                                          \
    static char said;                                           \
    if (condition) return warpline_lt_unsupported(what, &said); \
  } while (0)

#endif /* WARPLINE_CLIENT_STUB_LIBRARIES_LT_VALUES_H_ */
