// The child of a fork touches managed memory that the device may have written. CUDA promises
// nothing to it; it ends, one way or another, and its parent goes on.
#include "processes.h"

static int (*g_allocate_managed)(unsigned long long*, size_t, unsigned);

static int FillManaged(struct Workload* w, unsigned value, unsigned** words) {
  static void* module;
  static void* function;
  static unsigned long long memory;
  if (module == NULL) {
    if (w->module_load(&module, kWorkloadPtx) != 0 ||
        w->function_get(&function, module, "fill") != 0 ||
        g_allocate_managed(&memory, 4096 * kWorkloadElements, 1) != 0) {
      return WorkloadFailed("managed memory", 0);
    }
  }
  *words = (unsigned*)memory;
  void* parameters[] = {&memory, &value};
  const int result =
      w->launch(function, kWorkloadElements / 128, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL);
  return result == 0 ? w->synchronize() : result;
}

static void Touch(unsigned* words, int how) {
  alarm(20);
  volatile unsigned* const touched = words;
  if (how == 0 && touched[5] == 0) _exit(2);
  if (how == 1) touched[5] = 3;
  // The operating system's kernel reads the page in a system call.
  int ends[2];
  if (how == 2 && pipe(ends) == 0) _exit(write(ends[1], words, 64) == 64 ? 0 : 3);
  _exit(0);
}

int main(void) {
  struct Workload w;
  if (OpenWorkload(&w) != 0 || RunOpenWorkload(&w, 2) != 0) return 1;
  void* const found = dlsym(w.library, "cuMemAllocManaged");
  __builtin_memcpy((void*)&g_allocate_managed, (const void*)&found, sizeof(found));
  unsigned* words = NULL;
  for (unsigned round = 0; round < 9; ++round) {
    if (FillManaged(&w, round, &words) != 0) return WorkloadFailed("launch", (int)round);
    // Some children are made when the host has the page, some when it has not.
    if (round % 2 == 1 && words[7] != round + 7) return WorkloadFailed("word", (int)words[7]);
    const pid_t child = fork();
    if (child == 0) Touch(words, (int)(round % 3));
    const int status = AwaitChild(child);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGSEGV && WTERMSIG(status) != SIGBUS) {
      return WorkloadFailed("child that touches managed memory", status);
    }
    for (unsigned i = 0; i < kWorkloadElements; ++i) {
      if (words[i] != i + round) return WorkloadFailed("word after a child", (int)words[i]);
    }
  }
  puts("host: ok");
  return 0;
}
