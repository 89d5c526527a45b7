// Loads a plug-in after CUDA is in use, for the whole process to see, and uses both.
#include "workload.h"

int main(int argc, char** argv) {
  if (argc != 2 || RunWorkload(2) != 0) return 1;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (plugin == NULL) {
    fprintf(stderr, "workload: %s\n", dlerror());
    return 1;
  }
  int (*answer)(void);
  void* found = dlsym(plugin, "plugin_answer");
  if (found == NULL) return WorkloadFailed("plugin_answer", 0);
  __builtin_memcpy((void*)&answer, (const void*)&found, sizeof(found));
  if (answer() != 42) return WorkloadFailed("plug-in", answer());
  if (RunWorkload(2) != 0) return 1;
  if (answer() != 42) return WorkloadFailed("plug-in afterwards", answer());
  puts("host: ok");
  return 0;
}
