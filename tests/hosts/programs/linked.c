// A program that was linked with -lcuda.
#include <stdio.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int* count);

#include "workload.h"

int main(void) {
  int count = 0;
  if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0 || count < 1) {
    return WorkloadFailed("devices", count);
  }
  if (RunWorkload(3) != 0) return 1;
  puts("host: ok");
  return 0;
}
