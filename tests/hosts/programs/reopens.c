// Opens and closes the library again and again, unused and used.
#include "workload.h"

int main(void) {
  for (int i = 0; i < 200; ++i) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || dlclose(library) != 0) return WorkloadFailed("unused", i);
  }
  for (int i = 0; i < 20; ++i) {
    struct Workload w;
    if (OpenWorkload(&w) != 0 || RunOpenWorkload(&w, 1) != 0) return 1;
    if (dlclose(w.library) != 0) return WorkloadFailed("close", i);
  }
  puts("host: ok");
  return 0;
}
