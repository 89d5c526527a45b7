// Loads a library that takes most of the static thread-local storage before CUDA is used.
#include "workload.h"

int main(int argc, char** argv) {
  void* taker = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (taker == NULL) {
    fprintf(stderr, "workload: %s\n", dlerror());
    return 1;
  }
  if (RunWorkload(3) != 0) return 1;
  puts("host: ok");
  return 0;
}
