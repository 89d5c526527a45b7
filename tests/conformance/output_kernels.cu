// Kernels that print, fail an assertion, or trap.
#include <cassert>
#include <cstdio>

extern "C" {

__global__ void print_line(int number) { printf("kernel says %d\n", number); }

__global__ void print_forms(int* returned) {
  *returned =
      printf("%d|%5u|%-6x|%.3f|%s|%c|%%|%lld\n", -7, 42u, 255u, 2.5, "text", 'c', -1234567890123LL);
}

__global__ void print_threads() { printf("thread %d\n", int(threadIdx.x)); }

__global__ void assert_at_three() { assert(threadIdx.x != 3); }

__global__ void trap_if(int value) {
  if (value != 0) __trap();
}

}  // extern "C"
