/* A libcuda.so.1 for NVIDIA's libraries in a worker that many sessions share. It exports every
 * symbol of the driver and implements none: each is a jump through a table, which the worker fills
 * with the driver's own functions, and with ours where the sessions' work is to be kept apart
 * (library_driver.h). Loaded before the driver, it is what the libraries find by that name.
 *
 * Plain C on libc alone. Not thread-safe until the table is filled. */
#include <stdint.h>

enum {
#define WARPLINE_SYMBOL(index, name) kIndex_##name = index,
#include "server/device/cuda/libraries/symbols.inc"
#undef WARPLINE_SYMBOL
  kCount
};

static int NotInitialized(void) { return 3; /* CUDA_ERROR_NOT_INITIALIZED */ }

__attribute__((visibility("hidden"))) void* warpline_table[kCount] = {
#define WARPLINE_SYMBOL(index, name) (void*)NotInitialized,
#include "server/device/cuda/libraries/symbols.inc"
#undef WARPLINE_SYMBOL
};

static const char* const g_names[kCount] = {
#define WARPLINE_SYMBOL(index, name) #name,
#include "server/device/cuda/libraries/symbols.inc"
#undef WARPLINE_SYMBOL
};

#define WARPLINE_SYMBOL(index, name)                                                   \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name    \
          ":\n  endbr64\n  jmp *(warpline_table + 8 * " #index ")(%rip)\n.size " #name \
          ", . - " #name "\n");
#include "server/device/cuda/libraries/symbols.inc"
#undef WARPLINE_SYMBOL

/* Gives out the table, the names of its entries, and their number. */
uint32_t warpline_library_table(void*** table, const char* const** names);
uint32_t warpline_library_table(void*** table, const char* const** names) {
  *table = warpline_table;
  *names = g_names;
  return kCount;
}
