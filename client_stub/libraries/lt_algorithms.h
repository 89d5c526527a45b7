/* An algorithm of cuBLASLt in the program's memory, where it may become anything: the server looks
 * at what a call says of it. */
#ifndef WARPLINE_CLIENT_STUB_LIBRARIES_LT_ALGORITHMS_H_
#define WARPLINE_CLIENT_STUB_LIBRARIES_LT_ALGORITHMS_H_

#include <stdint.h>

#include "client_stub/libraries/lt_values.h"

/* cublasLtMatmulAlgo_t. The server's library found several for a call, and `number` says which one;
 * or the program has configured one itself. */
struct lt_algorithm {
  uint32_t magic;
  uint8_t number, requested, reductions; /* Slots of the call. */
  uint8_t own;                           /* 1 for an algorithm that the program has configured. */
  uint64_t workspace;                    /* A slot, too. */
  uint32_t config[kLtConfigAttributes];
  uint8_t types[6];      /* Compute type, scale type, and those of A to D. */
  uint8_t alignments[4]; /* Those with which the library found it, as powers of two. */
  uint8_t unused[2];
};

/* Puts the algorithm into a call's values, which has `workspace` bytes; with NULL, the best one.
 * kInvalidValue for what is no algorithm. */
HIDDEN int warpline_lt_put_algorithm(const struct lt_algorithm* algorithm, uint64_t workspace,
                                     uint64_t* values);

#endif /* WARPLINE_CLIENT_STUB_LIBRARIES_LT_ALGORITHMS_H_ */
