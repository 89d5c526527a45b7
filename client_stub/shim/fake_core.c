/* A core that shows what the shim handed to it, for shim_test. */
#include <string.h>

#include "client_stub/shim/core_abi.h"

static int g_attached;
static int g_result_while_attaching;

static int Attached(void) { return g_attached; }
static int ResultWhileAttaching(void) { return g_result_while_attaching; }

/* Six integer registers, eight vector registers, and arguments of both kinds on the stack: each
 * weighs differently, so that no two can change places unseen. */
static double Weigh(long a, int b, void* c, long d, long e, long f, double v0, double v1, double v2,
                    float v3, double v4, double v5, double v6, double v7, long s0, double s1,
                    long s2) {
  return (double)(a + 2 * b + 3 * (long)c + 4 * d + 5 * e + 6 * f) + 7 * v0 + 8 * v1 + 9 * v2 +
         10 * v3 + 11 * v4 + 12 * v5 + 13 * v6 + 14 * v7 + (double)(15 * s0) + 16 * s1 +
         (double)(17 * s2);
}

static void* const* g_trampolines;
static uint32_t g_init_index;
static void* InitTrampoline(void) { return g_trampolines[g_init_index]; }

int warpline_core_attach(const struct warpline_shim* shim, void** table) {
  if (shim->abi_version != WARPLINE_SHIM_ABI_VERSION) return 1;
  g_trampolines = shim->trampolines;
  for (uint32_t i = 0; i < shim->count; ++i) {
    const char* name = shim->names[i];
    if (i > 0 && strcmp(shim->names[i - 1], name) >= 0) return 2;
    if (strcmp(name, "cuInit") == 0) {
      table[i] = (void*)Attached;
      g_init_index = i;
      g_result_while_attaching = ((int (*)(void))shim->trampolines[i])();
    }
    if (strcmp(name, "cuDriverGetVersion") == 0) table[i] = (void*)ResultWhileAttaching;
    if (strcmp(name, "cuLaunchKernel") == 0) table[i] = (void*)Weigh;
    if (strcmp(name, "cuGetExportTable") == 0) table[i] = (void*)InitTrampoline;
  }
  ++g_attached;
  return 0;
}
