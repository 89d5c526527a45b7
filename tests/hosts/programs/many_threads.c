// Threads with the smallest stacks that the system allows and with somewhat larger ones, the first
// of which initializes CUDA.
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "workload.h"

static void* Work(void* unused) {
  (void)unused;
  return RunWorkload(2) == 0 ? NULL : (void*)1;
}

int main(int argc, char** argv) {
  const size_t stack = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, stack) != 0) return WorkloadFailed("stack size", 0);
  for (int round = 0; round < 3; ++round) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) {
      if (pthread_create(&threads[i], &attributes, Work, NULL) != 0) {
        return WorkloadFailed("thread", i);
      }
      if (round == 0) {
        void* failed;
        pthread_join(threads[i], &failed);
        if (failed) return 1;
      }
    }
    for (int i = 0; round > 0 && i < 4; ++i) {
      void* failed;
      pthread_join(threads[i], &failed);
      if (failed) return 1;
    }
  }
  puts("host: ok");
  return 0;
}
