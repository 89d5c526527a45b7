// Memory on the heap and on the stack is registered for the device and never unregistered. When the
// session has ended, its bytes and those beside them are still the program's.
#include <stdlib.h>

#include "processes.h"

static unsigned* g_words;
static char* g_beside;

// Runs after the exit handlers of the driver, which was loaded later.
static void AtTheEnd(void) {
  sleep(1);  // The server ends the session after the program has said goodbye.
  for (unsigned i = 0; i < 1024; ++i) {
    if (g_words[i] != i + 3) _exit(WorkloadFailed("word at the end", (int)i));
  }
  if (strcmp(g_beside, "beside") != 0) _exit(WorkloadFailed("what lies beside", 0));
  free(g_words);
  free(g_beside);
  puts("host: ok");
  fflush(stdout);
}

static int Use(int (*get)(unsigned long long*, void*, unsigned),
               int (*share)(void*, size_t, unsigned), void* memory, size_t bytes) {
  unsigned long long device = 0;
  const int result = share(memory, bytes, 2);
  return result == 0 ? get(&device, memory, 0) : result;
}

int main(void) {
  atexit(AtTheEnd);
  g_words = malloc(4096);
  g_beside = malloc(16);
  strcpy(g_beside, "beside");
  struct Workload w;
  if (OpenWorkload(&w) != 0 || RunOpenWorkload(&w, 2) != 0) return 1;
  int (*get)(unsigned long long*, void*, unsigned);
  int (*share)(void*, size_t, unsigned);
  void* found = dlsym(w.library, "cuMemHostGetDevicePointer_v2");
  __builtin_memcpy((void*)&get, (const void*)&found, sizeof(found));
  found = dlsym(w.library, "cuMemHostRegister_v2");
  __builtin_memcpy((void*)&share, (const void*)&found, sizeof(found));
  unsigned local[16] = {5};
  if (Use(get, share, g_words, 4096) != 0) return WorkloadFailed("register the heap", 0);
  if (Use(get, share, local, sizeof(local)) != 0) return WorkloadFailed("register the stack", 0);
  for (unsigned i = 0; i < 1024; ++i) g_words[i] = i + 3;
  exit(local[0] == 5 ? 0 : 1);
}
